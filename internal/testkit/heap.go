package testkit

import "runtime"

// Heap returns the number of bytes alive on the heap.
func Heap() int {
	runtime.GC()
	runtime.GC() // the second run also frees the contents of sync.Pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Allocated returns the number of bytes allocated during fn, including those of other
// goroutines.
func Allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
