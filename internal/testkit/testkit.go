// Package testkit holds helpers for the tests of many packages: a leak check, a directory for
// temporary files, seeds, and memory measurements.
package testkit

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// Main runs a package's tests and fails if a goroutine outlives them. It is all that a TestMain
// needs to call.
func Main(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	if code == 0 && !fuzzing() && !settles(before) {
		stacks := make([]byte, 1<<20)
		fmt.Printf("leaked goroutines:\n%s\n", stacks[:runtime.Stack(stacks, true)])
		code = 1
	}
	os.Exit(code)
}

// fuzzing reports whether the fuzzer is running, which has its own goroutines.
func fuzzing() bool {
	f := flag.Lookup("test.fuzz")
	return f != nil && f.Value.String() != ""
}

// settleTime is how long goroutines that were told to end may take, even on a busy machine.
const settleTime, settleStep = 5 * time.Second, 10 * time.Millisecond

// settles waits until there are no more goroutines than before, and reports whether that happened
// within settleTime.
func settles(before int) bool {
	for range settleTime / settleStep {
		if runtime.NumGoroutine() <= before {
			return true
		}
		time.Sleep(settleStep)
	}
	return false
}

// TempDir gives a test its own directory for temporary files, and fails the test if it leaves a
// file there.
func TempDir(t testing.TB) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // as Windows calls it
	t.Cleanup(func() {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("temporary files not removed: %v (%v)", left, err)
		}
	})
}

// Brief returns short if -short is set, as it is for repeated runs and with the race detector, and
// full otherwise.
func Brief[T any](short, full T) T {
	if testing.Short() {
		return short
	}
	return full
}

// Allocs returns the minimum of up to five results of [testing.AllocsPerRun], because that function
// also counts occasional allocations by goroutines of earlier tests, by timers and by the garbage
// collector.
func Allocs(runs int, fn func()) float64 {
	least := testing.AllocsPerRun(runs, fn)
	for i := 0; i < 4 && least > 0; i++ {
		least = min(least, testing.AllocsPerRun(runs, fn))
	}
	return least
}

// Seed returns the seed in QUIVER_SEED, or a random one if that is not set. It logs the seed so
// that a failure can be reproduced.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("QUIVER_SEED"); s != "" {
		given, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("QUIVER_SEED: %v", err)
		}
		seed = given
	}
	t.Logf("QUIVER_SEED=%d", seed)
	return seed
}

// Rand returns a source of random numbers seeded by [Seed].
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 1))
}
