package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quivernet/quiver/bench/scene"
	"github.com/quivernet/quiver/internal/scenes"
)

// pathForm and flowsForm are examples of the values of -path and -flows.
const (
	pathForm  = "35mbit 65ms 0.7% 1.5"
	flowsForm = "3 ours, 2 cubic"
)

// ownScene returns the scene that -path, -flows and -for describe: endless flows that begin
// together over a path.
func ownScene(path, flows string, span time.Duration) (s scenes.Scene, err error) {
	if s, err = ownPath(path); err != nil {
		return s, fmt.Errorf("-path %q: %w", path, err)
	}
	if span < 4*time.Second || span > time.Hour {
		return s, fmt.Errorf("-for is %v; must be from 4s to 1h", span)
	}
	s.Name, s.For = path, time.Second+span
	for part := range strings.SplitSeq(flows, ",") {
		n, kind, err := ownFlows(part)
		if err != nil {
			return s, fmt.Errorf("-flows %q: %w", flows, err)
		}
		s = s.With(n, scenes.Flow{Kind: kind, Begin: time.Second}, 0)
	}
	return s, nil
}

// ownPath parses a path: its rate, round trip, random loss each way, and queue in bandwidth-delay
// products.
func ownPath(text string) (s scenes.Scene, err error) {
	words := strings.Fields(text)
	if len(words) != 4 {
		return s, fmt.Errorf("got %d words; must be four, as in %q: rate, round trip, random loss, queue in bandwidth-delay products", len(words), pathForm)
	}
	units := map[string]float64{"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
	unit := strings.TrimLeft(words[0], "0123456789.")
	rate, rateErr := number("rate", strings.TrimSuffix(words[0], unit), 0, 1e9)
	rate *= units[unit]
	if rateErr != nil || rate < 100e3 || rate > 10e9 {
		rateErr = fmt.Errorf("rate is %q; must be from 100kbit to 10gbit", words[0])
	}
	rtt, tripErr := time.ParseDuration(words[1])
	if tripErr != nil || rtt < time.Millisecond || rtt > 5*time.Second {
		tripErr = fmt.Errorf("round trip is %q; must be from 1ms to 5s", words[1])
	}
	percent, isPercent := strings.CutSuffix(words[2], "%")
	loss, lossErr := number("random loss in %", percent, 0, 50)
	if !isPercent {
		lossErr = fmt.Errorf("random loss is %q; must be in percent, such as 0.7%%", words[2])
	}
	queue, queueErr := number("queue in bandwidth-delay products", words[3], 0, 100)
	if err = errors.Join(rateErr, tripErr, lossErr, queueErr); err != nil {
		return s, err
	}
	return scenes.Path(int64(rate), rtt, loss/100, queue), nil
}

// number parses a number within bounds.
func number(what, text string, lowest, highest float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= lowest && v <= highest) { // also rejects NaN
		return 0, fmt.Errorf("%s is %q; must be from %g to %g", what, text, lowest, highest)
	}
	return v, nil
}

// ownFlows parses the number and the kind of flows, such as "2 cubic".
func ownFlows(text string) (n int, kind scenes.Kind, err error) {
	words := strings.Fields(text)
	if len(words) != 2 {
		return 0, 0, fmt.Errorf("%q must be a number and a kind, as in %q", strings.TrimSpace(text), flowsForm)
	}
	if n, err = strconv.Atoi(words[0]); err != nil || n < 1 || n > 100 {
		return 0, 0, fmt.Errorf("number of flows is %q; must be from 1 to 100", words[0])
	}
	for _, kind := range []scenes.Kind{scenes.Ours, scenes.Reno, scenes.Cubic, scenes.BBR} {
		if kind.String() == words[1] {
			return n, kind, nil
		}
	}
	return 0, 0, fmt.Errorf("kind is %q; must be ours, reno, cubic or bbr", words[1])
}

// ownColumns are the names of the figures of [ownFigures]. The last two figures are those of the
// whole path.
var ownColumns = []string{"of the rate", "lost, %", "Jain's index", "queue, ms", "p95 queue, ms"}

// ownFigures returns the figures of the flows of the given kinds over the last three quarters of a
// run.
func ownFigures(r scenes.Result, kinds []scenes.Kind) []float64 {
	until := r.Scene.For
	from := until - (until-time.Second)*3/4
	var rates []float64
	var lost, sent uint64
	sum := 0.0
	for i, f := range r.Flows {
		if slices.Contains(kinds, r.Scene.Flows[i].Kind) {
			done, rate := f.Between(from, until), f.Rate(from, until)
			rates, sum, lost, sent = append(rates, rate), sum+rate, lost+done.Lost, sent+done.Sent
		}
	}
	queue := scenes.Percentile(r.Queue[min(int(from/scenes.Step), len(r.Queue)):], 0.95)
	return []float64{sum / float64(r.Scene.There.Rate), 100 * float64(lost) / float64(max(sent, 1)), scenes.Jain(rates),
		r.StandingQueue(from, until).Seconds() * 1e3, queue.Seconds() * 1e3}
}

// playOwn plays a scene with each seed, which puts off the beginnings of flows (see
// [scenes.Scene.Shifted]), and prints the medians of the figures for each kind of flow.
func playOwn(ctx context.Context, w io.Writer, s scenes.Scene, seeds scene.Seeds) error {
	var kinds [][]scenes.Kind
	count := make(map[scenes.Kind]int)
	for _, f := range s.Flows {
		if count[f.Kind]++; count[f.Kind] == 1 {
			kinds = append(kinds, []scenes.Kind{f.Kind})
		}
	}
	if all := slices.Concat(kinds...); len(all) > 1 {
		kinds = append(kinds, all)
	}
	figures := make([][][]float64, len(kinds)) // by kind, seed and column
	for _, seed := range seeds.All() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r := scenes.Run(s.Shifted(seed), seed)
		for i, some := range kinds {
			figures[i] = append(figures[i], ownFigures(r, some))
		}
	}
	fmt.Fprintf(w, "%s, %v, %v\n\n| flows | %s |\n|---%s|\n", s.Name, s.For-time.Second, seeds, strings.Join(ownColumns, " | "), strings.Repeat("|---", len(ownColumns)))
	for i, some := range kinds {
		name := "all"
		if len(some) == 1 {
			name = fmt.Sprintf("%d %v", count[some[0]], some[0])
		}
		if _, err := fmt.Fprintf(w, "| %s %s|\n", name, ownCells(figures[i])); err != nil {
			return err
		}
	}
	return nil
}

// ownCells returns the median of each column over the seeds, with the minimum and maximum in
// brackets.
func ownCells(bySeed [][]float64) (text string) {
	for column := range ownColumns {
		var values []float64
		for _, figures := range bySeed {
			values = append(values, figures[column])
		}
		text += fmt.Sprintf("| %.3g ", scenes.Percentile(values, 0.5))
		if len(values) > 1 {
			text += fmt.Sprintf("(%.3g–%.3g) ", slices.Min(values), slices.Max(values))
		}
	}
	return text
}
