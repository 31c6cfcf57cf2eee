package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// report is what a demo measured.
type report struct {
	Bytes           int64   `json:"bytes"` // in each direction
	UploadSeconds   float64 `json:"upload_seconds"`
	DownloadSeconds float64 `json:"download_seconds"`
	IdealSeconds    float64 `json:"ideal_seconds"`
	DigestOK        bool    `json:"digest_ok"`
	PeakOutEntries  int     `json:"peak_out_entries"`
	Slots           int     `json:"slots"`
	ResentBunches   uint64  `json:"resent_bunches"`
	LinkBytes       uint64  `json:"link_bytes"`
	Carrier         string  `json:"carrier"`
	SealedPackets   uint64  `json:"sealed_packets"` // beside QUIC, sent by both ends
	RPCP99          float64 `json:"rpc_p99_ms"`
	RPCP99Unloaded  float64 `json:"rpc_p99_unloaded_ms"`

	loaded, unloaded []time.Duration // delays of the gameplay RPC
}

// ideal is how long a transfer takes on a path that carries nothing else: the last byte leaves when all were sent, the
// lost ones again, and arrives half a round trip later. A rate of 0 is no limit.
func ideal(bytes int64, rtt time.Duration, loss float64, rate int64) time.Duration {
	d := rtt / 2
	if rate > 0 {
		d += time.Duration(float64(bytes) * 8 / float64(rate) / (1 - loss) * float64(time.Second))
	}
	return d
}

// writeJSON writes the report on one line.
func (r *report) writeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// writeTable writes the report for people.
func (r *report) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, seconds float64) {
		d := time.Duration(seconds * float64(time.Second))
		fmt.Fprintf(t, "%s\t%s\t%.3f s\t%s\n", name, formatSize(r.Bytes), seconds, formatRate(r.Bytes, d))
	}
	row("upload", r.UploadSeconds)
	row("download", r.DownloadSeconds)
	if r.IdealSeconds > 0 {
		row("ideal", r.IdealSeconds)
	}
	same := "identical"
	if !r.DigestOK {
		same = "DIFFERENT"
	}
	fmt.Fprintf(t, "digest\t%s\n", same)
	fmt.Fprintf(t, "reliable buffer\tat most %d of %d entries out\n", r.PeakOutEntries, r.Slots)
	fmt.Fprintf(t, "bunches sent again\t%d\n", r.ResentBunches)
	fmt.Fprintf(t, "carrier\t%s, %d sealed packets\n", r.Carrier, r.SealedPackets)
	fmt.Fprintf(t, "on the link\t%s both ways\n", formatSize(int64(r.LinkBytes)))
	fmt.Fprintf(t, "gameplay RPC, p99\t%.1f ms during the transfers, %.1f ms without\n", r.RPCP99, r.RPCP99Unloaded)
	return t.Flush()
}
