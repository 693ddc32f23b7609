/* The version of the exported functions: see `LIBRARY_VERSION` in `__init__.py`. */

#include <stdint.h>

__attribute__((visibility("default"))) int32_t native_version(void) { return 17; }
