package main

import (
	"testing"
)

func TestGetOntoAFullDevice(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	path, _ := newFile(t, 300_000)
	s.run("put", path, "x")
	s.fails([]string{"get", "x", "/dev/full"}, "get x", "/dev/full", "no space left", "begins anew")
}
