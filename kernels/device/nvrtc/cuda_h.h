// In place of cuda.h, whose functions are the host's: the type of a tensor map
#pragma once
typedef struct CUtensorMap_st { alignas(64) unsigned long long opaque[16]; } CUtensorMap;
