package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/bench/plan"
	"github.com/quivernet/quiver/bench/pool"
	"github.com/quivernet/quiver/bench/report"
	"github.com/quivernet/quiver/bench/scenario"
	"github.com/quivernet/quiver/bench/scene"
)

var testTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestMain is a worker where the tests below start one.
func TestMain(m *testing.M) {
	if os.Getenv("QUIVER_BENCH_WORKER") != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestPlansLeaveNobodyOut(t *testing.T) {
	for name, jobs := range map[string][]job.Job{"quick": plan.Quick(), "full": plan.Full(3)} {
		for _, s := range scenario.Names() {
			if s == "kernel" && !emulate.CanTunnel() {
				continue
			}
			require.True(t, slices.ContainsFunc(jobs, func(j job.Job) bool { return j.Scenario == s }), "%s has no %s", name, s)
		}
		for _, p := range peer.All() {
			require.True(t, slices.ContainsFunc(jobs, func(j job.Job) bool { return j.Peer == p.Name }), "%s has no %s", name, p.Name)
		}
		seen := make(map[string]bool)
		for _, j := range jobs {
			require.False(t, seen[j.String()], "%s twice in %s", j, name)
			seen[j.String()] = true
		}
	}
}

// TestRuns holds which scenarios are run as often as -runs says, each run with its own seed.
func TestRuns(t *testing.T) {
	runs, seeds, small := make(map[string]int), make(map[string]map[uint64]bool), 0
	for _, j := range plan.Full(4) {
		if j.Mode == scenario.ModeSeries || j.Scenario == "blob" && j.Clock == job.Relay {
			continue
		}
		cell := j.Cell()
		if seeds[cell] == nil {
			seeds[cell] = make(map[uint64]bool)
		}
		seeds[cell][j.Seed] = true
		require.Len(t, seeds[cell], j.Run+1, "%s has a seed of its own", j)
		if j.Scenario == "blob" && j.Size <= 256<<10 {
			small = max(small, j.Run+1)
			continue
		}
		runs[j.Scenario] = max(runs[j.Scenario], j.Run+1)
	}
	require.Equal(t, 20, small)
	for _, s := range scenario.Names() {
		want := map[string]int{"emulator": 1, "start": 12}[s]
		if want == 0 {
			want = 4
		}
		if s != "kernel" || emulate.CanTunnel() {
			require.Equal(t, want, runs[s], s)
		}
	}
}

// sample is a job of each kind that takes little time.
func sample() []job.Job {
	var jobs []job.Job
	seen := make(map[string]bool)
	for _, j := range plan.Quick() {
		kind := j.Scenario + string(j.Clock)
		if j.Clock == job.Virtual {
			kind += j.Peer // costs milliseconds
		}
		slow := strings.HasPrefix(j.Peer, "kcp") || j.Scenario == "lane" || j.Scenario == "emulator" && j.Clock == job.Relay
		if !seen[kind] && !slow {
			seen[kind] = true
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func TestWorkersAndReport(t *testing.T) {
	doc := report.New(testTime)
	p, err := pool.New(func(r job.Result, _ int) {
		require.Empty(t, r.Err, "%s", r.Job)
		require.NotEmpty(t, r.Values, "%s", r.Job)
		doc.Add(r)
	})
	require.NoError(t, err)
	jobs := sample()
	require.NoError(t, p.Run(context.Background(), jobs))
	require.Len(t, doc.Results, len(jobs))

	var text, page, markdown strings.Builder
	require.NoError(t, doc.WriteJSON(&text))
	again, err := report.ReadJSON(strings.NewReader(text.String()))
	require.NoError(t, err)
	require.Equal(t, doc, again)
	require.NoError(t, again.WriteHTML(&page))
	require.NoError(t, again.WriteMarkdown(&markdown))
	require.NotContains(t, page.String(), "src=", "the page needs nothing but itself")
	require.NotContains(t, page.String(), `href="http`)
	require.Contains(t, page.String(), "</svg>")
	require.NotContains(t, page.String(), "font-family:Liberation Sans;", "whoever has not that one sees another without serifs")
	require.Contains(t, markdown.String(), "quic-go/stream")
	require.Empty(t, again.Missing(jobs))
	again.Results[0].Err, again.Results[1].Cut = "broken", true
	other := jobs[1]
	other.Run++
	require.Equal(t, []job.Job{again.Results[0].Job}, again.Missing(append(jobs, other)), "what was cut is not run again")
	again.Add(doc.Results[0])
	require.Len(t, again.Results, len(jobs))
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-quick", "-only", "blob", "-runs", "2"})
	require.NoError(t, err)
	require.True(t, o.quick)
	require.Equal(t, 2, o.runs)
	for _, args := range [][]string{{"-resume"}, {"-runs", "0"}, {"-only", "("}, {"more"}} {
		_, err := parse(args)
		require.Error(t, err, "%v", args)
	}
}

// TestNothingIsOverwritten by a run that cannot read what it should report, or has nothing to do.
func TestNothingIsOverwritten(t *testing.T) {
	folder := t.TempDir()
	page, broken, other := filepath.Join(folder, "out.html"), filepath.Join(folder, "broken.json"), filepath.Join(folder, "other.json")
	for path, text := range map[string]string{page: "earlier", broken: `{"Machine":`, other: "{}"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, args := range [][]string{
		{"-from", filepath.Join(folder, "none.json"), "-html", page}, {"-from", broken, "-html", page}, {"-from", other, "-html", page},
		{"-resume", "-json", broken, "-html", page}, {"-quick", "-only", "no such job", "-html", page},
	} {
		require.Error(t, run(t.Context(), args), "%v", args)
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Equal(t, "earlier", string(text), "%v", args)
	}
}

// TestOutputsFirst: what cannot be written is known before anything is measured.
func TestOutputsFirst(t *testing.T) {
	folder := t.TempDir()
	there := filepath.Join(folder, "out.json")
	require.NoError(t, os.WriteFile(there, []byte("earlier"), 0o600))
	require.NoError(t, prepare(options{json: there, md: filepath.Join(folder, "new.md"), profile: filepath.Join(folder, "p", "q")}))
	require.DirExists(t, filepath.Join(folder, "p", "q"))
	require.NoFileExists(t, filepath.Join(folder, "new.md"))
	text, err := os.ReadFile(there)
	require.NoError(t, err)
	require.Equal(t, "earlier", string(text))
	require.ErrorIs(t, prepare(options{html: filepath.Join(folder, "none", "out.html")}), os.ErrNotExist)
	s, err := parseScenes([]string{"-rows", "", "-first", "4"})
	require.NoError(t, err)
	require.Equal(t, scene.Seeds{First: 4, Count: 3}, s.seeds)
	figures := filepath.Join(folder, "figures.json")
	require.NoError(t, runScenes(t.Context(), []string{"-rows", "little to send: the address", "-seeds", "1", "-json", figures}))
	text, err = os.ReadFile(figures)
	require.NoError(t, err)
	require.Contains(t, string(text), `"Seeds":[1],"Rows":[{"Family":"little to send",`)
	require.Error(t, runScenes(t.Context(), []string{"-rows", "crowd", "-json", filepath.Join(folder, "none", "out.json")}))
	_, err = parseScenes([]string{"-rows", "no such row"})
	require.ErrorContains(t, err, "no such row")
	require.Error(t, runScenes(t.Context(), []string{"-rows", "", "-out", filepath.Join(there, "folder")}), "a file is no folder")
}

func TestStoppedJobsHaveNotFailed(t *testing.T) {
	p, err := pool.New(func(r job.Result, _ int) { require.Fail(t, "a result", "%s: %s", r.Job, r.Err) })
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, stop)
	long := job.Job{Scenario: "calls", Peer: "quic-go/stream", Clock: job.Loopback, Size: 64, Mode: scenario.ModeRoundTrip, Seconds: time.Minute}
	require.ErrorIs(t, p.Run(ctx, []job.Job{long}), context.Canceled)
}
