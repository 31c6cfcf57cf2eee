package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// unit is a suffix and what it multiplies by.
type unit struct {
	suffix string
	factor float64
}

var (
	sizeUnits = []unit{
		{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
		{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"b", 1},
	}
	rateUnits = []unit{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"bit", 1}}
)

// parseSize reads 4096, 64KiB, 16MiB, 1.5GB and the like.
func parseSize(s string) (int64, error) {
	n, err := parseUnits(s, sizeUnits)
	if err != nil {
		return 0, fmt.Errorf("size %q is not like 16MiB: %w", s, err)
	}
	return n, nil
}

// parseRate reads bits a second: 0, 10mbit, 512kbit/s and the like.
func parseRate(s string) (int64, error) {
	n, err := parseUnits(strings.TrimSuffix(s, "/s"), rateUnits)
	if err != nil {
		return 0, fmt.Errorf("rate %q is not like 10mbit: %w", s, err)
	}
	return n, nil
}

func parseUnits(s string, units []unit) (int64, error) {
	number, factor := strings.ToLower(strings.TrimSpace(s)), 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	x, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a number", number)
	case !(x >= 0 && x*factor <= math.MaxInt64/2):
		return 0, fmt.Errorf("it must be from 0 to %d", int64(math.MaxInt64/2))
	}
	return int64(math.Round(x * factor)), nil
}

// parseShare reads a share of packets: 1%, 0.5%, or 0.01.
func parseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x < 1) {
		return 0, fmt.Errorf("loss %q is not like 1%%: it must be from 0 to below 100%%", s)
	}
	return x, nil
}

// formatSize writes bytes for people.
func formatSize(bytes int64) string {
	x := float64(bytes)
	for _, u := range []string{"B", "KiB", "MiB", "GiB"} {
		if x < 1024 || u == "GiB" {
			if u == "B" {
				return fmt.Sprintf("%d B", bytes)
			}
			return fmt.Sprintf("%.1f %s", x, u)
		}
		x /= 1024
	}
	return ""
}

// formatRate writes bytes a second for people.
func formatRate(bytes int64, d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return formatSize(int64(float64(bytes)/d.Seconds())) + "/s"
}
