"""The boundary of a stage: a failure that is no statement about the input becomes one line that says where it happened.
"""
from __future__ import annotations

import dis
from contextlib import contextmanager

_PACKAGE = __name__.partition(".")[0]
_RAISE = dis.opmap["RAISE_VARARGS"]


class InternalError(RuntimeError):
    """A fault of the compiler, or an input that a stage before should have refused. places: what was compiled, the
    innermost first."""

    def __init__(self, error, places):
        self.error, self.places = error, places
        super().__init__(error, places)

    def __str__(self):
        what = " ".join(str(self.error).split())
        return (f"internal error in {', in '.join(self.places)}: {type(self.error).__name__}"
                + (f": {what}" if what else "") + "; please report it with the model")


@contextmanager
def internal_errors(place):
    """Raise InternalError for what fails inside and is no deliberate error. place: what is compiled, as text, or a
    function that says so. Boundaries nest: each adds its place."""
    try:
        yield
    except InternalError as error:
        place = place() if callable(place) else place
        if place not in error.places:
            error.places += (place,)
            error.args = (error.error, error.places)
        raise
    except Exception as error:
        if is_deliberate(error):
            raise
        raise InternalError(error, (place() if callable(place) else place,)) from error


def is_deliberate(error):
    """Whether an exception is of the project's own class, or one that a `raise` statement of the project raised, unlike
    one of numpy or of the interpreter: a ValueError or NotImplementedError with its text for users."""
    if type(error).__module__.partition(".")[0] == _PACKAGE:
        return True
    if type(error) not in (ValueError, NotImplementedError) or error.__traceback__ is None:
        return False
    origin = error.__traceback__
    while origin.tb_next is not None:
        origin = origin.tb_next
    own = origin.tb_frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE
    return own and origin.tb_frame.f_code.co_code[origin.tb_lasti] == _RAISE
