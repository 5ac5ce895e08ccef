cimport cython

from proxy.core.fields cimport frame


cdef class SeriesCache


cdef class Fate:
    cdef public str kind
    cdef public str tenant
    cdef public str detail
    cdef public long long samples


@cython.final
cdef class Part:
    cdef public str tenant
    cdef public object pair
    cdef public list chunks
    cdef public long long size
    cdef public long long samples
    cdef public long long made
    cdef public long long exemplars
    cdef public long long metadata
    cdef public bint replay
    cdef public object batch
    cpdef add(self, bytes entry)


cdef class Slot:
    cdef public str tenant
    cdef public object pair
    cdef public long long scan
    cdef public Part part
    cpdef Part open(self, long long number, list touched)
    cpdef Part take(self)


@cython.final
cdef class Output:
    cdef public Slot slot
    cdef public bytes first
    cdef public bytes second
    cdef public Py_ssize_t skip
    cdef public tuple feeders


cdef class Epoch:
    cdef public long long generation
    cdef public long long until_ms


cdef class Entry:
    cdef public bytes lead
    cdef public bytes rest
    cdef public Py_ssize_t length
    cdef public Epoch epoch
    cdef public Fate fate
    cdef public tuple outputs
    cdef public long long generation
    cdef public long long from_ms
    cdef public long long to_ms
    cdef public long long last_ms
    cdef public bint fast
    cdef public bint device
    cdef public bint ended
    cdef public long long used
    cdef public long long cost
    cdef public SeriesCache home
    cdef public object owner
    cdef public Entry next
    cpdef Py_ssize_t cut(self)
    cpdef split(self, Py_ssize_t at, object one)
    cpdef forget(self)


cdef class SeriesCache:
    cdef public dict entries
    cdef public object resolver
    cdef public Entry head
    cdef public long long fast_samples
    cpdef Entry find(self, bytes block)
    cpdef add(self, Entry entry)
    cpdef remove(self, Entry entry)


@cython.locals(value="long long", byte="long long", i=Py_ssize_t)
cdef long long _timestamp(bytes body, Py_ssize_t at) except -2


cdef Py_ssize_t _tail_of(bytes body, Py_ssize_t start, Py_ssize_t end) except -1


@cython.locals(
    touched=list,
    entry=Entry,
    known=Entry,
    stamp=bytes,
    at_ms="long long",
    fast_samples="long long",
    i=Py_ssize_t,
    start=Py_ssize_t,
    end=Py_ssize_t,
    tail=Py_ssize_t,
    size=Py_ssize_t,
    time_at=Py_ssize_t,
    output=Output,
    slot=Slot,
    part=Part,
    chunks=list,
    head=bytes,
    length=Py_ssize_t,
    point=bytes,
)
cpdef list scan(bytes body, list bounds, SeriesCache cache, long long number, long long tick)
