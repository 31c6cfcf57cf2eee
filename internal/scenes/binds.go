package scenes

import "strings"

// binds lists why rows miss their bounds, by parts of the rows' names. The first match
// counts. A reason is a proof, or states that another stack also misses the bound. A reason
// that begins with "Open" is neither: it says what is known about the fault.
var binds = []struct {
	why   string
	parts []string
}{
	{
		why: "Most of a round trip passes until the short first flight has shown what others leave " +
			"of the path, and one more round trip after the last packet for each time that some " +
			"packet of the last flight is lost: once at 1 %, twice at 5 %, three times at 10 %. " +
			"At 1 % that makes 1.5 times the ideal at 100 ms, where 4 MiB take four round trips, " +
			"and 1.9 at 200 ms, where they take two. BBR takes 3 to 5, New Reno more than 20. The " +
			"flows of these scenes have no repair slices. With them, the full stack takes 1.3 over " +
			"100 ms, and over 200 ms 1.4 to 1.5 at up to 2 %, 1.6 at 5 % and 1.7 at 10 % (see " +
			"bench/FIGURES.md). What remains there is the first flight, which is a fifth of what the " +
			"path holds.",
		parts: []string{"loss: 100 Mbit/s 100 ms", "loss: 100 Mbit/s 200 ms"},
	},
	{
		why: "Open: the start continues for a round trip after the queue is full, loses 400 " +
			"packets and more of 3,700, and pays for that with a pause. New Reno leaves slow " +
			"start in time and is a little faster; BBR is slower still.",
		parts: []string{"jitter: 50 Mbit/s 80 ms jitter 5 ms", "jitter: 100 Mbit/s 80 ms jitter 5 ms"},
	},
	{
		why: "The 16 packets of the train take 1.5 ms at 100 Mbit/s and 3 ms at 50. Jitter spreads " +
			"them over its own length, so they say little about the rate. The transfer begins " +
			"with 32 packets per round trip, doubles that each round trip, which jitter makes " +
			"longer, and ends soon after. BBR, which begins likewise, misses the bound too, and " +
			"New Reno takes up to six times as long as we do.",
		parts: []string{"jitter: "},
	},
	{
		why: "All packets of the train arrive in one clump and say nothing about the rate. The " +
			"transfer begins with 32 packets per round trip, and doubles that each round trip. " +
			"BBR and New Reno, which begin likewise, miss the bound as well, mostly by more.",
		parts: []string{"clumps: "},
	},
	{
		why: "Open: if the train is lost and the transfer begins with little, a few losses in the " +
			"first round trips look like a competitor's, and few packets show little about what " +
			"is random. Of 40 runs two take 6 to 11 times the ideal; New Reno and CUBIC always 27 " +
			"and more, BBR 1.4.",
		parts: []string{"weather: 20 Mbit/s 150 ms 5 %"},
	},
	{
		why: "Open: in one run of twelve a spell begins before the path has carried a rate for " +
			"eight round trips. Then the window grows by a packet per round trip, and the run " +
			"gets a fifth of the path. New Reno halves its window at each spell, and BBR ignores " +
			"them.",
		parts: []string{"for 100 ms of each second"},
	},
	{
		why: "Open: half of the first flight arrives in time, and what arrives in time is all that " +
			"its judgement sees: half of the rate. The look after it is shorter than the packets " +
			"are late, so it sees half of what it adds, and the next look is nine round trips " +
			"later; with losses a start may end at a third of the rate. With an earlier next look " +
			"5 % lost make 2.0 times the ideal instead of 2.5, but 0 % make 1.8 instead of 1.45. " +
			"BBR is faster. New Reno and CUBIC take up to 28 with losses, although they detect " +
			"them alike.",
		parts: []string{"every other packet late"},
	},
	{
		why: "New Reno in our place leaves CUBIC no more of the path.",
		parts: []string{
			"4 + 4 with cubic, queue 1 ",
			"1 + 1 with cubic, a policer",
			"4 + 4 with cubic, a policer",
			"1 + 1 with cubic, a queue of 4 packets",
		},
	},
	{
		why: "Open: each of our flows must see by its own queues that its losses are not random. " +
			"That takes some seconds, and 15 beside a single CUBIC, in which it takes what the others " +
			"leave. With windows of a few packets, New Reno and CUBIC wait for timeouts, and ours do " +
			"not.",
		parts: []string{"100 ms, CoDel"},
	},
	{
		why: "Open: our flows share such a path once looks have shown them whose losses these are, " +
			"which takes two to five seconds. Now and then one stops, because surges seem to show " +
			"that losses are random, and has most of the path until looks show it again. With " +
			"windows of a few packets, New Reno and CUBIC wait for timeouts, and ours do not.",
		parts: []string{"neighbours without a queue: "},
	},
	{
		why: "A policer lets the train pass at 1 Gbit/s. The first flight of 512 KiB that the " +
			"train promises loses 406 of the transfer's 3,700 packets, which is 11 %: until a " +
			"round trip is over nothing tells the path from one of 1 Gbit/s. With a flight of a " +
			"quarter of that, 32 MiB over such a path take 1.6 times the ideal instead of 1.37. " +
			"BBR loses more.",
		parts: []string{"policed"},
	},
	{
		why: "The bound is New Reno's own time, and BBR and CUBIC in our place take longer too. The " +
			"rate changes every five round trips. At each fall, what the path held becomes a queue " +
			"of 200 ms, which lasts until the path is fast again. New Reno keeps that queue full. We " +
			"drain it, and then know the fast rate a round trip late.",
		parts: []string{"a fifth of it every other 200 ms"},
	},
	{
		why: "Open: a sixteenth of the path is seven packets per round trip, and few packets show " +
			"little: some flows take losses of a full queue for random ones. New Reno loses as " +
			"much, CUBIC less.",
		parts: []string{"crowd: 16 together, queue 0.125"},
	},
	{
		why: "A sixteenth of the path is seven packets per round trip. A flow that adds a packet " +
			"per round trip and halves its window at a loss, as New Reno does, loses 1.5/7², " +
			"which is 3 %. New Reno itself and CUBIC miss the bound as well.",
		parts: []string{"crowd: 16 together, queue 0.25", "crowd: 16 one by one, queue 0.25"},
	},
	{
		why: "A latecomer must win its share from a queue of four products, over which a round " +
			"trip takes 250 ms. New Reno and CUBIC leave it less.",
		parts: []string{"crowd: 4 one by one, queue 4"},
	},
	{
		why: "Unequal parts become equal over some seconds, because looks of a small part keep up to " +
			"three packets per round trip of what they take. Seeds differ: some are at 0.99, some at " +
			"0.85. BBR in our place is at 0.6, New Reno and CUBIC are above the bound.",
		parts: []string{"crowd: 8 together, queue 4"},
	},
	{
		why: "Open: unequal parts become equal over some seconds, because looks of a small part " +
			"keep up to three packets per round trip of what they take. Seeds differ: some are at " +
			"0.99, some at 0.85. New Reno is fairer.",
		parts: []string{"crowd: 2", "crowd: 4", "crowd: 8", "crowd: 16", "crowd and weather: "},
	},
	{
		why: "Open: the flow that has most looks for more by a quarter of that, three times what a " +
			"queue of an eighth holds. Once one look has met drops, looks no longer do so: 0.91 " +
			"instead of 0.71. A flow that yields adds half a packet per round trip, and its part " +
			"is a hundred packets. Not to look before half of the queue is empty makes it 0.95 " +
			"and gives one CUBIC over an eighth 0.47 instead of 0.41, but 16 flows in weather " +
			"lose 2.3 % instead of 1.5.",
		parts: []string{"8 together on 1000 Mbit/s", "2 together on 1000 Mbit/s"},
	},
	{
		why: "The flow with the longer round trip looks for more less often, and learns of a queue " +
			"later. New Reno leaves it 0.17, and BBR leaves the shorter one a twentieth.",
		parts: []string{"round trips: 20 ms beside 100 ms"},
	},
	{
		why: "Open: over a narrow path the drain after a look lasts until the queue is gone, which " +
			"costs 3 % of the rate.",
		parts: []string{"play in the connection of a transfer, 2 Mbit/s"},
	},
	{
		why:   "Open: over a round trip of 10 ms CUBIC leaves us 0.55 to 0.57, New Reno 0.48.",
		parts: []string{"with cubic on 100 Mbit/s"},
	},
	{
		why: "The long flow has the rate that New Reno has, and leaves the short ones less in some runs " +
			"than in others. With CUBIC or BBR in place of all of them they miss the bound as well.",
		parts: []string{"256 KiB by ours each second beside ours, queue 0.25"},
	},
	{
		why: "Open: a start that fills a queue of a quarter once causes drops of all that our long " +
			"flow sends for 40 ms. That flow then competes from a sixtieth of its rate, and wins " +
			"the rest back by looks, a quarter each. If it competed from 0.9 of all that arrived " +
			"before, over short queues, it would have more; but then 16 flows in weather lose " +
			"2.3 % instead of 1.5, and two over 1 Gbit/s and a queue of an eighth become less " +
			"equal.",
		parts: []string{"short flows: "},
	},
	{
		why: "BBR version 1 ignores the losses of PIE. A flow that answers them as New Reno does " +
			"gets a seventh, as do New Reno and CUBIC.",
		parts: []string{"with bbr, PIE"},
	},
	{
		why: "A model that ignores loss fills a queue of an eighth until 5 % and more are lost. A " +
			"flow that answers losses as New Reno does gets a thirtieth, as does New Reno itself.",
		parts: []string{"with bbr, queue 0.125"},
	},
	{
		why: "BBR version 1 keeps two products in flight and continues whatever is lost, so a " +
			"queue of one product is full beside it. With a twentieth of the path we lose 5 % of " +
			"our packets there, and a flow that continues at losses of up to 12 % has no more. " +
			"New Reno and CUBIC have less, beside Linux's BBR as well.",
		parts: []string{"with bbr, queue 1"},
	},
	{
		why: "Open: since a start ends early there, one of our flows has 0.56 of a queue of an " +
			"eighth beside New Reno; before, it had 0.54.",
		parts: []string{"1 + 1 with reno, queue 0.125"},
	},
	{
		why: "Over a queue of an eighth CUBIC has less than its half beside New Reno too, which " +
			"takes as much.",
		parts: []string{"with cubic, queue 0.125"},
	},
	{
		why: "Open: four flows that fill a queue of a product answer the same losses, and the two " +
			"that add a packet per round trip have a little more than the two whose windows grow " +
			"with time.",
		parts: []string{"2 + 2 with cubic, queue 1"},
	},
	{
		why: "Over a queue of four products, with which a round trip takes 250 ms, CUBIC grows " +
			"with time and not with round trips. It leaves New Reno and BBR less than the bound " +
			"too.",
		parts: []string{"with cubic, queue 4"},
	},
	{
		why: "Four flows and more fill the queue as New Reno does until they have emptied it " +
			"together, which takes some ten seconds; then half of the packets wait less than 11 " +
			"ms. New Reno, CUBIC and BBR fill it permanently.",
		parts: []string{"play beside"},
	},
	{
		why: "Until a round trip is over, nothing distinguishes a train that exaggerates from the " +
			"train of a path that is as fast. The first flight of 256 KiB, two products, is sent at " +
			"the rate that the train shows, and what exceeds path and queue is lost, once. With a " +
			"first flight of 128 KiB these rows meet their bounds, but then 256 KiB over 100 Mbit/s " +
			"take 1.9 to 2.6 times the ideal over 50 to 200 ms, where they take 1.0 now and the bound " +
			"is 1.8.",
		parts: []string{"256 KiB after a train that lied by"},
	},
	{
		why: "Open: no flow sees the others for a round trip. Trains that do not meet find the " +
			"path idle, and each flow begins with a part of the product, up to 512 KiB. What " +
			"exceeds that which path and queue take in that time is lost: of 16 hosts 8 MB less " +
			"2. With half of that flight 9 % become 4 and 18 % become 10, but 4 MiB over 100 " +
			"Mbit/s take 5 % longer. If flights are so short that those of a few flows do not " +
			"meet, more is lost, because then all continue at the whole rate: 8 lose 15 % after " +
			"64 KiB, 4 lose 6. New Reno and CUBIC, which double from QUIC's window, lose less; " +
			"over 100 ms New Reno and BBR miss the bound with 16 and 32 too. The first of eight " +
			"finds the path empty for 6 ms, and has half of it for seconds. The senders of one " +
			"server know of each other.",
		parts: []string{"within 50 ms, many"},
	},
	{
		why: "Open: the first of a server's transfers to end their starts have a little more than " +
			"the others, and parts become equal over some ten seconds, which is longer than these " +
			"transfers last. With 1 % lost New Reno and CUBIC take four times as long.",
		parts: []string{"within 50 ms, one server's"},
	},
	{
		why: "Open: the trains, a second earlier, find the path idle, and each transfer begins " +
			"with a part of what they promised. New Reno loses as much with 8 flows, and twice as " +
			"much with 16; CUBIC loses less.",
		parts: []string{"within 100 ms"},
	},
}

// bound sets the Binds of rows.
func bound(rows []Row) []Row {
	for i := range rows {
		rows[i].Binds = why(rows[i].Name())
	}
	return rows
}

// why returns the reason for the row with the given name, or "" if there is none.
func why(name string) string {
	for _, b := range binds {
		for _, part := range b.parts {
			if strings.Contains(name, part) {
				return b.why
			}
		}
	}
	return ""
}
