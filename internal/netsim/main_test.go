package netsim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain fails the package when goroutines outlive its tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "leaked goroutines:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of goroutines other than this one that do not end by themselves.
func leaked() string {
	var left []string
	for range 100 {
		left = left[:0]
		buf := make([]byte, 1<<20)
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")[1:] {
			if !strings.Contains(g, "testing.") || strings.Contains(g, "/netsim.") {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return ""
		}
		time.Sleep(20 * time.Millisecond)
	}
	return strings.Join(left, "\n\n")
}

// newSeed draws a seed, or takes QUIVER_SEED, and prints it.
func newSeed(t testing.TB) uint64 {
	seed := rand.Uint64()
	if s := os.Getenv("QUIVER_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("QUIVER_SEED: %v", err)
		}
	}
	t.Logf("QUIVER_SEED=%d", seed)
	return seed
}
