// language.h holds the other names.
#pragma once
struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };  // struct TensorMap of boxes.h
