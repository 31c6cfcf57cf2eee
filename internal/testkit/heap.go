package testkit

import "runtime"

// Heap returns how many bytes are alive on the heap.
func Heap() int {
	runtime.GC()
	runtime.GC() // and what sync.Pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Allocated returns how many bytes fn allocates, and what else runs meanwhile.
func Allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
