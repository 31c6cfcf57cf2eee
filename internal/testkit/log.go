package testkit

import (
	"strings"
	"sync"
)

// Log is an io.Writer of log lines that a test reads while others write them.
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

// Take takes out what was written, and returns it.
func (l *Log) Take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}
