package testkit

import (
	"strings"
	"sync"
)

// A Log is an io.Writer of log lines that a test can read while others write.
// Its methods may be called concurrently.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write writes lines.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// With returns the lines that contain part.
func (l *Log) With(part string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

// Take removes and returns everything written so far.
func (l *Log) Take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}
