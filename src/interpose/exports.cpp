// The functions that stand in front of the libraries' (calls.def).

#include "interpose/hooks.h"

using namespace verbena::interpose;

extern "C" {
#define CALL(library, answer, flags, result, name, declaration, arguments, ...) \
    [[gnu::visibility("default")]] result name declaration { return pass<calls::name>(::name) arguments; }
#define NAMED_SLOT(...)
#include "interpose/arity.h"
#include "interpose/calls.def"
}
