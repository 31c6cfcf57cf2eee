package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quivernet/quiver/bench/job"
)

// A table is rows of text, the first of which is the heading.
type table struct {
	title, note string
	rows        [][]string
}

// below returns the line below the table, or "" if it needs none.
func (t table) below() string {
	for _, row := range t.rows {
		if slices.ContainsFunc(row, func(text string) bool { return strings.HasSuffix(text, dagger) }) {
			return disturbedNote
		}
	}
	return ""
}

// A column is a column of a table of figures.
type column struct{ value, heading, format string }

// A kind describes the table of a scenario, with one row for each cell.
type kind struct {
	scenario, title, note string
	columns               []column
}

var latencyColumns = []column{
	{"p50_ms", "p50 ms", "%.1f"}, {"p98_ms", "p98 ms", "%.1f"}, {"p99_ms", "p99 ms", "%.1f"}, {"p999_ms", "p99.9 ms", "%.1f"}, {"max_ms", "max ms", "%.1f"},
}

var kinds = []kind{
	{"emulator", "The emulator itself", "What it was told, and what was measured of it in this run: delay in ms with the packet's time on the wire, rate in Mbit/s, loss in %, queue in bytes.",
		[]column{{"configured", "told", "%.5g"}, {"measured", "measured", "%.5g"}, {"error", "error", "%+.2g"}}},
	{"clean", "Clean loopback", "One blob, after a warm-up of an eighth of it; both ends in one process. Heap beyond the blob itself.",
		[]column{{"mb_per_second", "MB/s", "%.0f"}, {"cpu_seconds_per_gb", "CPU s/GB", "%.2f"}, {"peak_heap_mb", "peak heap MB", "%.1f"}}},
	{"play", "Play beside a blob", "Reliable messages of 100 bytes at 30 Hz on the blob's connection and in its direction, from the tick to the handler.",
		append(slices.Clone(latencyColumns), column{"blob_seconds", "blob s", "%.2f"}, column{"blob_over_ideal", "blob / ideal", "%.2f"}, column{"messages", "messages", "%.0f"}, column{"lost", "lost", "%.0f"})},
	{"lane", "A narrow path kept full", "GameNetworkingSockets' lane scenario: 256 KB/s, 2 % loss, 50 ms, blobs of 512 KiB one after the other, messages as above.",
		append(slices.Clone(latencyColumns), column{"kib_per_second", "blobs KiB/s", "%.0f"}, column{"messages", "messages", "%.0f"}, column{"lost", "lost", "%.0f"})},
	{"calls", "Calls", "Arguments of 64 bytes on the bare loopback, both ends in one process; allocations of both.",
		[]column{{"p50_us", "p50 µs", "%.0f"}, {"p99_us", "p99 µs", "%.0f"}, {"calls_per_second", "calls/s", "%.0f"}, {"cpu_us_per_call", "CPU µs a call", "%.1f"}, {"allocs_per_call", "allocations", "%.1f"}}},
	{"crowd", "Crowds", "Many connections to one server on the bare loopback, all in one process, unreliable messages of 100 bytes. A connection has two ends.",
		append([]column{{"cpu_us_per_message", "CPU µs a message", "%.1f"}, {"cores_busy", "cores busy", "%.2f"}, {"heap_kib_per_end", "heap KiB an idle end", "%.1f"}, {"stack_kib_per_end", "stack KiB", "%.1f"}, {"goroutines_per_end", "goroutines", "%.2f"}},
			append(slices.Clone(latencyColumns), column{"lost", "lost", "%.0f"})...)},
	{"latejoin", "Late join", "Many clients of one server each take a blob at once, or bring one, hashed with SHA-256 at both ends; a client beside them calls 200 times a second. Bare loopback, all in one process; its greatest resident size, with all connections idle before.",
		[]column{{"seconds", "s", "%.2f"}, {"mb_per_second", "MB/s", "%.0f"}, {"cpu_seconds", "CPU s", "%.2f"}, {"peak_rss_mib", "peak RSS MiB", "%.0f"}, {"p50_ms", "call p50 ms", "%.1f"}, {"p99_ms", "p99 ms", "%.1f"}, {"idle_rss_mib", "idle RSS MiB", "%.0f"}, {"peak_heap_mib", "peak heap MiB", "%.0f"}}},
	{"start", "Soon after the handshake", "One blob that begins so long after the handshake: time over ideal, and bytes on the wire over the blob's.",
		[]column{{"over_ideal", "over ideal", "%.2f"}, {"wire_over_payload", "wire", "%.2f"}}},
	{"fair", "A QUIC stream beside each", "Both without end over one bottleneck; what of the link each has, by the bytes that arrive.",
		[]column{{"stream_mbit_per_second", "stream Mbit/s", "%.2f"}, {"stream_share", "stream's share", "%.2f"}, {"peer_mbit_per_second", "contender Mbit/s", "%.2f"}, {"peer_share", "contender's share", "%.2f"}}},
	{"kernel", "The kernel's TCP beside each", "Both without end over one bottleneck, whose queue holds one product, through a TUN device; the kernel's congestion control is the one named. What of the link each has, by the bytes of IP that arrive.",
		[]column{{"kernel_share", "TCP's share", "%.2f"}, {"peer_share", "contender's share", "%.2f"}}},
	{"block", "One-shot blocks", "Blocks that are sent once: the share that arrives whole.",
		[]column{{"delivered_share", "arrived", "%.3f"}, {"expected_share", "expected", "%.3f"}, {"p50_ms", "p50 ms", "%.1f"}}},
}

// clocks are the clocks and their names, in the order of the report.
var clocks = []struct {
	clock job.Clock
	name  string
}{{job.Virtual, "virtual time"}, {job.Relay, "real time, through a relay"}, {job.Loopback, "real time, bare loopback"}}

// figures returns the tables of all scenarios except blobs.
func (d *Document) figures() []table {
	var all []table
	for _, k := range kinds {
		for _, c := range clocks {
			if cells := d.cells(k.scenario, c.clock); len(cells) > 0 {
				all = append(all, k.table(cells, c.name))
			}
		}
	}
	return all
}

func (k kind) table(cells []*cell, clock string) table {
	t := table{title: k.title + " (" + clock + ")", note: k.note}
	columns := slices.DeleteFunc(slices.Clone(k.columns), func(c column) bool {
		return !slices.ContainsFunc(cells, func(x *cell) bool { _, ok := x.median(c.value); return ok })
	})
	head := []string{"what", "contender"}
	for _, c := range columns {
		head = append(head, c.heading)
	}
	repeated := len(columns) > 0 && slices.ContainsFunc(cells, func(x *cell) bool { return len(x.runs) > 1 })
	if repeated {
		head = append(head, "runs, spread")
		t.note += " Medians over the runs; the spread is how far the least and the greatest of the first figure are apart, over its median."
	}
	t.rows = append(t.rows, head)
	for _, x := range cells {
		row := []string{x.Row(), x.mark(x.Peer)}
		for _, c := range columns {
			row = append(row, x.show(c))
		}
		if repeated {
			row = append(row, x.spread(columns[0].value))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func (c *cell) show(col column) string {
	v, ok := c.median(col.value)
	if !ok {
		return ""
	}
	s := fmt.Sprintf(col.format, v)
	if c.cut() && strings.Contains(col.value, "blob") {
		s = ">" + s
	}
	return s
}

// Brief summarizes a result in a few words.
func Brief(r job.Result) string {
	if r.Err != "" {
		return "failed: " + r.Err
	}
	var parts []string
	if r.Cut {
		parts = append(parts, "cut")
	}
	for _, c := range columnsOf(r.Scenario) {
		if v, ok := r.Values[c.value]; ok && len(parts) < 5 {
			parts = append(parts, c.heading+" "+fmt.Sprintf(c.format, v))
		}
	}
	return strings.Join(append(parts, r.Notes...), ", ")
}

func columnsOf(scenario string) []column {
	for _, k := range kinds {
		if k.scenario == scenario {
			return k.columns
		}
	}
	return []column{{"over_ideal", "over ideal", "%.2f"}, {"wire_over_payload", "wire", "%.2f"}, {"seconds", "seconds", "%.2f"}}
}
