// Package testkit has what the tests of many packages share: a leak check, a directory for
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

// Main runs a package's tests and fails if a goroutine outlives them. A TestMain needs to
// call nothing else.
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

// fuzzing reports whether the fuzzer is running, which has goroutines of its own.
func fuzzing() bool {
	f := flag.Lookup("test.fuzz")
	return f != nil && f.Value.String() != ""
}

// settles waits until there are no more goroutines than before. It returns false after 5 s.
func settles(before int) bool {
	for range 500 {
		if runtime.NumGoroutine() <= before {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// TempDir gives a test its own directory for temporary files. It fails the test if a file is
// left there.
func TempDir(t testing.TB) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // the variable of Windows
	t.Cleanup(func() {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in the folder for temporary files: %v (%v)", left, err)
		}
	})
}

// Brief returns short under -short, which is used for repeated runs and with the race
// detector. Otherwise it returns full.
func Brief[T any](short, full T) T {
	if testing.Short() {
		return short
	}
	return full
}

// Allocs returns the minimum of up to five results of [testing.AllocsPerRun]. That function
// counts all allocations, including occasional ones by goroutines of earlier tests, timers and
// the garbage collector.
func Allocs(runs int, fn func()) float64 {
	least := testing.AllocsPerRun(runs, fn)
	for i := 0; i < 4 && least > 0; i++ {
		least = min(least, testing.AllocsPerRun(runs, fn))
	}
	return least
}

// Seed returns the seed in QUIVER_SEED, or a random one if it is not set. It logs the seed, so
// that a failure can be repeated.
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
