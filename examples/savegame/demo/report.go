package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/scenes"
	"github.com/quivernet/quiver/rpc"
)

// times is how many seconds a client's transfers took, or those of the slowest client.
type times struct {
	Upload   float64 `json:"upload_seconds"`
	Download float64 `json:"download_seconds"`
}

// Report is the result of a demo.
type Report struct {
	times
	Bytes     int64   `json:"bytes"`         // bytes of the save: for each client, in each direction
	SentBytes int64   `json:"sent_bytes"`    // bytes that one client sent of them, compressed, in chunks
	Chunks    int     `json:"chunks"`        // how many chunks those were
	Ideal     float64 `json:"ideal_seconds"` // minimum time for the sent bytes of all clients in one direction
	DigestOK  bool    `json:"digest_ok"`
	// LinkBytes is how many bytes the link carried both ways, with IP and UDP headers; 0 without an
	// emulated link.
	LinkBytes uint64 `json:"link_bytes"`
	// LinkLoss is the share of packets, both ways, that the emulated link or its queue dropped.
	LinkLoss float64 `json:"link_loss"`
	// Carrier is the carrier at the end: sealed, or quic if QUIC carries any connection.
	Carrier        string  `json:"carrier"`
	SealedPackets  uint64  `json:"sealed_packets"` // sealed packets sent by both ends
	RPCs           int     `json:"rpcs"`           // calls of which RPCP99 is the 99th percentile
	RPCP99         float64 `json:"rpc_p99_ms"`
	RPCsUnloaded   int     `json:"rpcs_unloaded"`
	RPCP99Unloaded float64 `json:"rpc_p99_unloaded_ms"`
	// BystanderP50 and BystanderP99 are for a client that only plays, beside several that transfer.
	BystanderP50 float64 `json:"bystander_p50_ms,omitempty"`
	BystanderP99 float64 `json:"bystander_p99_ms,omitempty"`
	Jain         float64 `json:"jain"` // Jain's index of the clients' rates, in the less fair direction
	Clients      []times `json:"clients"`
}

// report collects the measurements while all players are still connected.
func (s *stage) report() *Report {
	_, bytes := s.source.Manifest.Count()
	stored := s.players[0].stored
	var link netsim.Stats
	if s.hub != nil {
		link = s.hub.Stats()
	}
	r := &Report{
		Bytes: bytes, SentBytes: stored.Bytes, Chunks: stored.Sent, Ideal: ideal(stored.Bytes*int64(s.Clients), s.Way), DigestOK: true,
		LinkBytes: link.CarriedBytes, LinkLoss: float64(link.Dropped()) / float64(max(1, link.Packets)), Carrier: "sealed",
		RPCs: len(s.game.delays[loaded]), RPCP99: s.game.percentile(loaded, 0.99),
		RPCsUnloaded: len(s.game.delays[unloaded]), RPCP99Unloaded: s.game.percentile(unloaded, 0.99),
		BystanderP50: s.game.percentile(bystander, 0.5), BystanderP99: s.game.percentile(bystander, 0.99),
	}
	for _, p := range s.players {
		for _, c := range []rpc.Stats{p.here.Conn().Stats(), p.away.Conn().Stats()} {
			if r.SealedPackets += c.Sealed.PacketsOut; !c.Sealed.Carries {
				r.Carrier = "quic"
			}
		}
	}
	var up, down []float64 // rates
	for _, p := range s.players[:s.Clients] {
		up, down = append(up, 1/p.took.Upload), append(down, 1/p.took.Download)
		r.Clients, r.DigestOK = append(r.Clients, p.took), r.DigestOK && p.same
		r.Upload, r.Download = max(r.Upload, p.took.Upload), max(r.Download, p.took.Download)
	}
	r.Jain = min(scenes.Jain(up), scenes.Jain(down))
	return r
}

// ideal returns how many seconds bytes take on a link that carries nothing else. The last byte is
// sent after all others and after the retransmissions of lost ones, and arrives half a round trip
// later.
func ideal(bytes int64, way netsim.Config) float64 {
	if way.Rate == 0 {
		return way.Delay.Seconds()
	}
	return way.Delay.Seconds() + float64(bytes)*8/float64(way.Rate)/(1-way.Loss)
}

// Write writes the report, as JSON or as a table for people.
func (r *Report) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	size := func(bytes float64) string { return humanize.IBytes(uint64(bytes)) }
	row := func(name string, each int64, seconds float64) {
		bytes := float64(each) * float64(len(r.Clients))
		fmt.Fprintf(t, "%s\t%s\t%.3f s\t%s/s\n", name, size(bytes), seconds, size(bytes/seconds))
	}
	row("upload", r.Bytes, r.Upload)
	row("download", r.Bytes, r.Download)
	if r.LinkBytes > 0 {
		row("ideal for what is sent", r.SentBytes, r.Ideal)
		fmt.Fprintf(t, "on the link\t%s both ways, %.2f %% of the packets lost\n", size(float64(r.LinkBytes)), r.LinkLoss*100)
	}
	fmt.Fprintf(t, "sent\t%s by each client, compressed, in %s\n", size(float64(r.SentBytes)), english.Plural(r.Chunks, "chunk", ""))
	fmt.Fprintf(t, "digest\tidentical: %t\ncarrier\t%s, %d sealed packets\n", r.DigestOK, r.Carrier, r.SealedPackets)
	fmt.Fprintf(t, "gameplay RPC, p99\t%.1f ms of %d during the transfers, %.1f ms of %d without\n", r.RPCP99, r.RPCs, r.RPCP99Unloaded, r.RPCsUnloaded)
	if len(r.Clients) > 1 {
		for i, c := range r.Clients {
			fmt.Fprintf(t, "client %d\t%.3f s up, %.3f s down\n", i+1, c.Upload, c.Download)
		}
		fmt.Fprintf(t, "Jain's fairness\t%.4f\n", r.Jain)
		fmt.Fprintf(t, "bystander's RPC\t%.1f ms p50, %.1f ms p99\n", r.BystanderP50, r.BystanderP99)
	}
	return t.Flush()
}
