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
