package scenario

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

// Modes of crowds.
const (
	ModeBothWays  = "one message each way a tick"
	ModeMulticast = "multicast to all"
)

// A crowd is idle for idleShare times as long as it plays before its memory is measured. After 5 s
// of play, that is long enough for connections to free what they don't need, which takes them up to
// 20 s.
const idleShare = 5

// gatherTime is how long connecting all clients may take.
const gatherTime = time.Minute

// crowd measures many connections on the bare loopback, with both ends in this process. It records
// CPU time per message, latency, and the memory of idle connections.
func crowd(ctx context.Context, j job.Job, r *job.Result) error {
	who, err := peer.Find(j.Peer)
	if err != nil {
		return err
	}
	if who.Gather == nil {
		return fmt.Errorf("%s does not support crowds", j.Peer)
	}
	h := &heard{begin: time.Now()}
	idle := takeStock()
	joining, cancel := context.WithTimeout(ctx, gatherTime)
	defer cancel()
	c, err := who.Gather(joining, j.Count, j.Hz, h.hear)
	if err != nil {
		return err
	}
	defer c.Close()
	time.Sleep(settleTime)
	cpu := cpuTime()
	sent, err := beat(c, j, h)
	used := cpuTime() - cpu
	if err != nil {
		return err
	}
	time.Sleep(idleShare * j.Seconds)
	full := takeStock()
	r.Set("heap_kib_per_end", float64(int64(full.heap-idle.heap))/1024/float64(2*j.Count))
	r.Set("stack_kib_per_end", float64(int64(full.stack-idle.stack))/1024/float64(2*j.Count))
	r.Set("goroutines_per_end", float64(full.goroutines-idle.goroutines)/float64(2*j.Count))
	h.mu.Lock()
	defer h.mu.Unlock()
	quantiles(r, h.latencies, time.Millisecond, "_ms")
	r.Samples = nil // there are a hundred thousand of them
	r.Set("messages_per_second", float64(len(h.latencies))/j.Seconds.Seconds())
	r.Set("lost", float64(sent-len(h.latencies)))
	r.Set("cpu_us_per_message", float64(used.Microseconds())/float64(max(1, len(h.latencies))))
	r.Set("cores_busy", used.Seconds()/j.Seconds.Seconds())
	return nil
}

// beat ticks for Job.Seconds and returns how many messages should have arrived.
func beat(c peer.Crowd, j job.Job, h *heard) (sent int, err error) {
	message := make([]byte, messageBytes)
	send, each := c.Tick, 2*j.Count
	if j.Mode == ModeMulticast {
		send, each = c.Multicast, j.Count
	}
	ticker := time.NewTicker(time.Second / time.Duration(j.Hz))
	defer ticker.Stop()
	for end := time.Now().Add(j.Seconds); time.Now().Before(end); sent += each {
		<-ticker.C
		binary.LittleEndian.PutUint64(message, uint64(time.Since(h.begin)))
		if err := send(message); err != nil {
			return sent, err
		}
	}
	time.Sleep(time.Second / 2)
	return sent, nil
}

// heard records the latencies of messages that arrived.
type heard struct {
	begin time.Time

	mu        sync.Mutex
	latencies []time.Duration
}

func (h *heard) hear(message []byte) {
	latency := time.Since(h.begin) - time.Duration(binary.LittleEndian.Uint64(message))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.latencies = append(h.latencies, latency)
}

// A stock is a snapshot of the process's memory and goroutines.
type stock struct {
	heap, stack uint64
	goroutines  int
}

func takeStock() stock {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return stock{m.HeapAlloc, m.StackInuse, runtime.NumGoroutine()}
}
