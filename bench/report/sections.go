package report

import (
	"slices"
	"strings"

	"github.com/quivernet/quiver/bench/scene"
)

// A section is a criterion or an environment of RFC 9743, and the scenes that play it.
type section struct {
	number, title string
	families      []string // families of rows; nil = it is not covered
	but           string   // what isn't covered, or why nothing is
}

// sections are sections 5 (evaluation criteria), 6 (general use) and 7 (special cases) of RFC 9743.
var sections = []section{
	{"5.1.1", "Protection against congestion collapse", []string{"loss", "bursts", "change", "start"}, "loss that lasts above 15 %, which halves the rate, is in no scene but in internal/pace's TestBrake and TestBrakeStopsAFool"},
	{"5.1.2", "Protection against bufferbloat", []string{"queue", "change", "play"}, ""},
	{"5.1.3", "Protection against high packet loss", []string{"queue", "crowd", "start", "rush"}, ""},
	{"5.1.4", "Fairness within the algorithm", []string{"crowd", "crowd and weather", "near", "round trips"}, ""},
	{"5.1.5", "Short flows", []string{"start", "rush", "product", "short flows"}, ""},
	{"5.2.1", "Existing general-purpose congestion control", []string{"neighbours", "neighbours without a queue"}, "models of New Reno, CUBIC and BBR of the first version; kernels only in real time, by bench's kernel; BBR of the third version is not among them"},
	{"5.2.2", "Real-time congestion control", []string{"play", "constant"}, "packets of a game, and a constant rate; no flow that adapts as NADA, SCReAM or Google's do"},
	{"5.2.3", "Short and long flows of others", []string{"short flows"}, "New Reno's only"},
	{"5.3.1", "Differences with congestion control principles", nil, "nothing to measure; internal/pace says what it does in place of RFC 2914's answer to loss"},
	{"5.3.2", "Incremental deployment", nil, "nothing to measure; it needs both ends and nothing of the path"},
	{"6.1", "Paths with tail-drop queues", []string{"queue", "crowd", "neighbours"}, ""},
	{"6.2", "Tunnel behavior", nil, "it relies on no signal that a tunnel could hide; none is played"},
	{"6.3", "Wired paths", []string{"queue", "crowd", "near", "product", "way back"}, ""},
	{"6.4", "Wireless paths", []string{"loss", "jitter", "clumps", "change", "stalls", "weather", "bursts"}, "in models: no trace of a radio link"},
	{"7.1", "Active queue management", []string{"queue", "neighbours without a queue"}, "CoDel, PIE and a policer; no FQ-CoDel or L4S, and no ECN, which is not used"},
	{"7.2", "Network circuit breakers", nil, "no path has one; the controller has its own (RFC 8084), in internal/pace's TestBrake"},
	{"7.3", "Paths with varying delay", []string{"jitter", "clumps", "change"}, ""},
	{"7.4", "Internet of Things and constrained nodes", []string{"narrow"}, "down to 256 kbit/s; no path with packets of less than 1,200 bytes, which QUIC asks for"},
	{"7.5", "Paths with high delay", []string{"loss", "product", "satellite"}, "up to 600 ms"},
	{"7.6", "Misbehaving nodes", []string{"start"}, "trains that lie about the rate; no receiver that acks what it has not got"},
	{"7.7", "Extreme packet reordering", []string{"reordering", "weather"}, ""},
	{"7.8", "Transient events", []string{"change", "start"}, ""},
	{"7.9", "Sudden changes in the path", []string{"change", "little to send"}, "rates, round trips, darkness, and an address that changes"},
	{"7.10", "Multipath transport", nil, "a connection has one path"},
	{"7.11", "Data centers", nil, "no round trip is under 3 ms"},
}

const sectionsNote = "Which of the criteria (5), of the environments of general use (6) and of the special cases (7) the rows below play, and how many of these " +
	"rows meet all their bounds. The RFC sets no thresholds: the bounds are ours. It leaves multicast out, and so does the table."

// sectionTable returns the table of the RFC's sections and the rows that cover them.
func (s *Scenes) sectionTable() table {
	t := table{title: "RFC 9743, Specifying New Congestion Control Algorithms", note: sectionsNote, rows: [][]string{{"section", "", "rows", "met", "not covered"}}}
	for _, sec := range sections {
		but, met := sec.but, ""
		if sec.families == nil {
			but = "**all**: " + but
		} else {
			met = s.met(func(o scene.Outcome) bool { return slices.Contains(sec.families, o.Row.Family) })
		}
		t.rows = append(t.rows, []string{sec.number, sec.title, strings.Join(sec.families, ", "), met, but})
	}
	return t
}
