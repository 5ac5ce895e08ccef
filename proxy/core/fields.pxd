cimport cython


cdef class Frames:
    cdef public list bounds
    cdef public list metadata
    cdef public long long dropped


@cython.locals(value="unsigned long long", shift=int, byte="unsigned long long")
cpdef tuple read_varint(bytes body, Py_ssize_t at, Py_ssize_t end)


@cython.locals(key="unsigned long long", kind=int, length=Py_ssize_t)
cpdef tuple read_field(bytes body, Py_ssize_t at, Py_ssize_t end)


@cython.locals(
    bounds=list,
    end=Py_ssize_t,
    at=Py_ssize_t,
    start=Py_ssize_t,
    key="unsigned long long",
    symbols=bint,
    most=Py_ssize_t,
    found=Frames,
)
cpdef Frames frames(bytes body)


cpdef bytes varint(unsigned long long value)


cpdef bytes frame(Py_ssize_t length)
