package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// newLogger returns a logger of a level, and nil for off.
func newLogger(out io.Writer, level string) (*slog.Logger, *slog.LevelVar, error) {
	if strings.EqualFold(level, "off") {
		return nil, nil, nil
	}
	v := new(slog.LevelVar)
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, nil, fmt.Errorf("log level %q is not off, debug, info, warn or error", level)
	}
	v.Set(l)
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: v})), v, nil
}
