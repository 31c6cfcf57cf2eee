// Package worker runs one job in a separate process, so that no job is affected by another's heap,
// timers or leaks.
package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"testing"
	"testing/synctest"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/bench/scenario"
)

const (
	// Env is set in the environment of a worker.
	Env = "QUIVER_BENCH_WORKER"
	// ProfileEnv names the file to which a worker writes its CPU profile. If it is unset, there is
	// no profile.
	ProfileEnv = "QUIVER_BENCH_PROFILE"
)

// Is reports whether this process is a worker. If so, the program must call Main before doing
// anything else.
func Is() bool { return os.Getenv(Env) != "" }

// Main reads a job from standard input, runs it, writes its result as a line to
// standard output, and exits.
func Main() {
	text, err := io.ReadAll(os.Stdin)
	var j job.Job
	if err == nil {
		err = json.Unmarshal(text, &j)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	peer.Certificate() // outside of the bubble, because it uses goroutines and system entropy
	startProfile(os.Getenv(ProfileEnv))
	if j.Clock != job.Virtual {
		finish(scenario.Run(context.Background(), j))
	}
	inBubble(func() { finish(scenario.Run(context.Background(), j)) })
}

// startProfile starts a CPU profile, which finish ends.
func startProfile(path string) {
	if path == "" {
		return
	}
	f, err := os.Create(path)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// inBubble runs fn in fake time. A synctest bubble needs a test, which package testing can run in
// programs that simulate go test.
func inBubble(fn func()) {
	os.Args = os.Args[:1]
	all := func(string, string) (bool, error) { return true, nil }
	test := testing.InternalTest{Name: "Job", F: func(t *testing.T) { synctest.Test(t, func(*testing.T) { fn() }) }}
	testing.Main(all, []testing.InternalTest{test}, nil, nil)
}

// finish writes the result and ends the process, while goroutines of the peers may still run.
func finish(r job.Result) {
	pprof.StopCPUProfile()
	text, err := json.Marshal(r)
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
