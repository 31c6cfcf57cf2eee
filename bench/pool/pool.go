// Package pool runs jobs in worker processes, as many at once as can run
// without disturbing each other.
package pool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/worker"
)

const (
	// capacity is how much the jobs that run at once may need together, in
	// Mbit/s of emulated paths.
	capacity = 120
	// slowest is the least that a relay takes: each packet of a slow path wakes both
	// its ends. The contenders that fill 10 Mbit/s need 8 to 24 % of a core for it.
	slowest = 15
)

// cost returns how much of the capacity a job takes. Over a fast lossy path it is less than
// the rate: most peers are far from reaching the rate there, and those that do are soon done.
func cost(j job.Job) int {
	switch j.Clock {
	case job.Virtual:
		return capacity / 2 // a core: load only slows it down
	case job.Relay:
		mbit := int(min(j.Rate/1e6, capacity))
		switch {
		case j.Scenario == "blob" && j.Loss > 0:
			mbit = min(mbit, capacity/3)
		case j.Scenario == "kernel":
			mbit = max(mbit, capacity/3) // a flow that waits for a core loses its share to the other one
		}
		return max(slowest, mbit)
	}
	return capacity
}

// patience is how much longer than its limits a worker may take, and how long
// one in virtual time may take in all.
const patience = 2 * time.Minute

// allowed returns how long a worker may take.
func allowed(j job.Job) time.Duration {
	if j.Clock == job.Virtual {
		return patience
	}
	return j.Limit() + j.Seconds + patience
}

// A Pool starts workers.
type Pool struct {
	program string
	done    func(r job.Result, running int) // called once at a time

	// Profile is the folder for the CPU profiles of the jobs; "" = none.
	Profile string

	mu   sync.Mutex
	free sync.Cond
	left int // what is left of the capacity
	runs int
	cut  map[string]bool // cells of which a run was cut

	watch watch
}

// New returns a pool that runs this program's worker and calls done with every result.
func New(done func(r job.Result, running int)) (*Pool, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Pool{program: program, done: done, left: capacity, cut: make(map[string]bool)}
	p.free.L = &p.mu
	return p, nil
}

// Run runs the jobs, in about their order, and returns when all are done or ctx
// ends. A cell of which a run was cut is not run again.
func (p *Pool) Run(ctx context.Context, jobs []job.Job) error {
	var work sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go p.watch.run(watching)
	for _, j := range jobs {
		if ctx.Err() != nil {
			break
		}
		n := cost(j)
		p.take(n)
		if p.wasCut(j) {
			p.give(n)
			continue
		}
		work.Go(func() {
			defer p.give(n)
			if r := p.undisturbed(ctx, j); r.Err == "" || ctx.Err() == nil { // a job that was stopped has not failed
				p.file(r)
			}
		})
	}
	work.Wait()
	return context.Cause(ctx)
}

func (p *Pool) take(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.left < n {
		p.free.Wait()
	}
	p.left -= n
	p.runs++
}

func (p *Pool) give(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += n
	p.runs--
	p.free.Broadcast()
}

func (p *Pool) wasCut(j job.Job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut[j.Cell()]
}

func (p *Pool) file(r job.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Cut {
		p.cut[r.Cell()] = true
	}
	p.done(r, p.runs)
}

// undisturbed runs a job, and runs it again if the machine was taken away
// meanwhile. It returns the run that was disturbed least.
func (p *Pool) undisturbed(ctx context.Context, j job.Job) (best job.Result) {
	if j.Clock == job.Virtual {
		return p.one(ctx, j)
	}
	var least disturbance
	for i := range 1 + repeats {
		begin, before := time.Now(), readCores()
		r := p.one(ctx, j)
		d := disturbance{stall: p.watch.longest(begin)}
		if share, ok := readCores().stolenSince(before); ok {
			d.stolen = share
			r.Set(job.Stolen, share)
		}
		if i == 0 || r.Err == "" && (best.Err != "" || d.of(j) < least.of(j)) {
			best, least = r, d
		}
		if d.of(j) <= 1 || ctx.Err() != nil {
			break
		}
	}
	if least.of(j) > 1 {
		best.Notes = append(best.Notes, least.String())
	}
	return best
}

// one runs a job in a process of its own.
func (p *Pool) one(ctx context.Context, j job.Job) job.Result {
	r := job.Result{Job: j}
	ctx, cancel := context.WithTimeout(ctx, allowed(j))
	defer cancel()
	input, err := json.Marshal(j)
	if err != nil {
		r.Err = err.Error()
		return r
	}
	c := exec.CommandContext(ctx, p.program)
	c.Env = append(os.Environ(), worker.Env+"=1", "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING=true")
	if p.Profile != "" {
		c.Env = append(c.Env, worker.ProfileEnv+"="+filepath.Join(p.Profile, fileName(j)+".pprof"))
	}
	c.Stdin = bytes.NewReader(input)
	var out, complaint bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaint
	err = c.Run()
	if parsed := parse(out.Bytes(), &r); parsed != nil {
		r = job.Result{Job: j, Err: errors.Join(parsed, err, errors.New(tail(complaint.String(), out.String()))).Error()}
	}
	return r
}

// fileName returns the job's name without characters that file systems do not allow.
func fileName(j job.Job) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == ' ' || r == ',' || r == '#' || r == '%' {
			return '_'
		}
		return r
	}, j.String())
}

// parse finds the result in the output, which may contain lines of package testing.
func parse(out []byte, r *job.Result) error {
	for line := range bytes.Lines(out) {
		if bytes.HasPrefix(line, []byte("{")) {
			return json.Unmarshal(line, r)
		}
	}
	return fmt.Errorf("the worker had no result")
}

// tailBytes is how much of a worker's error output is kept.
const tailBytes = 2000

func tail(texts ...string) string {
	s := strings.TrimSpace(strings.Join(texts, "\n"))
	return s[:min(len(s), tailBytes)]
}
