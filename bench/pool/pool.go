// Package pool runs jobs in worker processes, as many at a time as don't disturb each other.
package pool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	// capacity limits the total cost of the jobs that run at the same time, in Mbit/s of emulated
	// paths.
	capacity = 120
	// minRelayCost is the minimum cost of a relay, because each packet wakes both ends even of a
	// slow path. The contenders that fill 10 Mbit/s need 8 to 24 % of a core.
	minRelayCost = 15
)

// cost returns how much of the capacity a job takes. Over a fast lossy path, that is less than the
// rate, because most peers don't come close to the rate there, and those that do finish soon.
func cost(j job.Job) int {
	switch j.Clock {
	case job.Virtual:
		return capacity / 2 // one core, since load only slows it down
	case job.Relay:
		mbit := int(min(j.Rate/1e6, capacity))
		switch {
		case j.Scenario == "blob" && j.Loss > 0:
			mbit = min(mbit, capacity/3)
		case j.Scenario == "kernel":
			mbit = max(mbit, capacity/3) // a flow that has to wait for a core loses its share to the other one
		}
		return max(minRelayCost, mbit)
	}
	return capacity
}

// patience is how much longer than its job's limits a worker may take. For a job in virtual time,
// it is the limit.
const patience = 2 * time.Minute

// timeout returns how long a worker may take.
func timeout(j job.Job) time.Duration {
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

	mu      sync.Mutex
	freed   sync.Cond       // signals that left has grown
	left    int             // unused part of the capacity
	running int             // number of jobs
	cut     map[string]bool // cells with a run that was cut

	watch watch
}

// New returns a pool that runs this program as a worker, and calls done with each result.
func New(done func(r job.Result, running int)) (*Pool, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Pool{program: program, done: done, left: capacity, cut: make(map[string]bool)}
	p.freed.L = &p.mu
	return p, nil
}

// Run runs the jobs, roughly in their order, and returns when all have finished or ctx ends. It
// skips further runs of a cell with a run that was cut.
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
			if r := p.undisturbed(ctx, j); r.Err == "" || ctx.Err() == nil { // don't report a job that was stopped as failed
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
		p.freed.Wait()
	}
	p.left -= n
	p.running++
}

func (p *Pool) give(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += n
	p.running--
	p.freed.Broadcast()
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
	p.done(r, p.running)
}

// undisturbed runs a job, and repeats it if the machine was taken away in the meantime. It returns
// the run that was disturbed least.
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

// one runs a job in a separate process.
func (p *Pool) one(ctx context.Context, j job.Job) job.Result {
	r := job.Result{Job: j}
	ctx, cancel := context.WithTimeout(ctx, timeout(j))
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

// fileName returns the job's name without characters that file systems don't allow.
func fileName(j job.Job) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == ' ' || r == ',' || r == '#' || r == '%' {
			return '_'
		}
		return r
	}, j.String())
}

// parse finds the result in a worker's output, which may also contain lines of package testing.
func parse(out []byte, r *job.Result) error {
	for line := range bytes.Lines(out) {
		if bytes.HasPrefix(line, []byte("{")) {
			return json.Unmarshal(line, r)
		}
	}
	return errors.New("worker printed no result")
}

// tailBytes is how much of a worker's error output is kept.
const tailBytes = 2000

func tail(texts ...string) string {
	s := strings.TrimSpace(strings.Join(texts, "\n"))
	return s[:min(len(s), tailBytes)]
}
