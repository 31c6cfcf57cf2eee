package files

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	// directBytes is how much is written directly at once: with half of it a disk of 1.4 GB/s takes a fifth longer.
	directBytes = 512 << 10
	// directAlign is of what the place, the length and the memory of a direct write are multiples: the largest sector of usual disks.
	directAlign = 4096
	// mostPending is how many files hold directBytes of memory at once, 32 MiB in all. Others are written as they come, and cached.
	mostPending = 64
)

// Direct is a new file that is written past the system's cache where that can be (O_DIRECT, of Linux). What nobody reads soon pushes nothing
// out of the cache then, and costs a quarter of the processor's time to write and flush. It holds up to directBytes until then, as long as not
// many others do. Sync comes before Close, or what it holds is lost. It is one goroutine's.
type Direct struct {
	file    *os.File
	direct  bool  // the system does not cache what is written now
	failed  error // the first error of a write: what follows has no place then
	pending *[]byte
}

// pendings are buffers of directBytes for what is not written yet, whose memory begins at a multiple of directAlign.
var pendings = sync.Pool{New: func() any {
	memory := make([]byte, directBytes+directAlign)
	begin := -int(uintptr(unsafe.Pointer(unsafe.SliceData(memory)))) & (directAlign - 1)
	aligned := memory[begin : begin : begin+directBytes]
	return &aligned
}}

// pendingNow is how many files hold one of pendings.
var pendingNow atomic.Int64

// hold takes memory for what is not written yet, and reports whether there is some: mostPending files have it at most.
func (d *Direct) hold() bool {
	if pendingNow.Add(1) > mostPending {
		pendingNow.Add(-1)
		return false
	}
	d.pending = pendings.Get().(*[]byte)
	return true
}

// CreateDirect makes a file, for its owner alone, which must not be there.
func CreateDirect(name string) (*Direct, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &Direct{file: f, direct: setDirect(f, true)}, nil
}

// Write appends p, which is in the file after Sync at the latest. After an error each further Write, and Sync, returns that one.
func (d *Direct) Write(p []byte) (n int, err error) {
	for len(p) > 0 && d.failed == nil {
		if d.pending == nil && !d.hold() {
			d.cache() // from here on the place is a multiple of nothing
			var written int
			written, d.failed = d.file.Write(p)
			return n + written, d.failed
		}
		some := p[:min(len(p), directBytes-len(*d.pending))]
		*d.pending = append(*d.pending, some...)
		if n, p = n+len(some), p[len(some):]; len(*d.pending) == directBytes {
			d.flush()
		}
	}
	return n, d.failed
}

// flush writes what is pending.
func (d *Direct) flush() {
	if d.pending == nil {
		return
	}
	n, err := d.file.Write(*d.pending)
	if d.direct && errors.Is(err, syscall.EINVAL) { // the file system has rules of its own for direct writes
		d.cache()
		_, err = d.file.Write((*d.pending)[n:])
	}
	d.failed = err
	d.forget()
}

// forget gives up what is pending.
func (d *Direct) forget() {
	if d.pending != nil {
		*d.pending = (*d.pending)[:0]
		pendings.Put(d.pending)
		d.pending = nil
		pendingNow.Add(-1)
	}
}

// cache has the system cache what is written from now on.
func (d *Direct) cache() {
	if d.direct {
		setDirect(d.file, false)
		d.direct = false
	}
}

// Sync writes the rest, and makes all of it durable, but not the name. No Write may follow.
func (d *Direct) Sync() error {
	d.cache() // the rest fills no sector
	d.flush()
	if d.failed != nil {
		return d.failed
	}
	return d.file.Sync()
}

// Close closes the file. What was not flushed by Sync may be missing.
func (d *Direct) Close() error {
	d.forget()
	return d.file.Close()
}
