// language.h holds its names.
