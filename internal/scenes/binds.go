package scenes

import "strings"

// binds gives, by parts of rows' names, the reason why the row misses its bounds; the first that matches counts. A reason is a proof, or
// says that another stack misses the bound as well. One that begins with "Open" is neither: it says what is known of the fault.
var binds = []struct {
	why   string
	parts []string
}{
	{"Most of a round trip goes by until the short first flight has told what others leave of the path, and one more after the last packet for each time that some packet of the last flight is lost: " +
		"once at 1 %, twice at 5 %, three times at 10 %. At 1 % that is 1.5 of the ideal at 100 ms, where 4 MiB last four round trips, and 1.9 at 200 ms, where they last two. BBR takes 3 to 5, New Reno more than 20.",
		[]string{"loss: 100 Mbit/s 100 ms", "loss: 100 Mbit/s 200 ms"}},
	{"Open: the start goes on for a round trip after the queue is full, loses 400 packets and more of 3,700, and pays for it with a pause. New Reno leaves slow start in time and is a little faster, BBR is slower still.",
		[]string{"jitter: 50 Mbit/s 80 ms jitter 5 ms", "jitter: 100 Mbit/s 80 ms jitter 5 ms"}},
	{"The 16 packets of the train last 1.5 ms at 100 Mbit/s and 3 ms at 50: jitter spreads them over its own length, so that they say little about the rate. The transfer begins with 32 packets in a round trip, " +
		"doubles each round trip, to which jitter adds, and is over soon after. BBR, which begins likewise, misses the bound, too, and New Reno takes up to six times as long as we do.",
		[]string{"jitter: "}},
	{"All packets of the train come in one clump and say nothing about the rate: the transfer begins with 32 packets in a round trip, and doubles each round trip. BBR and New Reno, which begin likewise, miss the bound as well, most by more.",
		[]string{"clumps: "}},
	{"Open: where the train is lost and the transfer begins with little, a few losses in the first round trips look like a competitor's, and few packets tell little of what is random. Of 40 two take 6 to 11 of the ideal; New Reno and CUBIC always 27 and more, BBR 1.4.",
		[]string{"weather: 20 Mbit/s 150 ms 5 %"}},
	{"Open: each spell looks like a policer. The rate from before is tried again only where the path had carried it for eight round trips, of which there are few between two spells: until then the window grows by a packet a round trip. New Reno halves at each spell, and BBR takes no notice.",
		[]string{"for 100 ms of each second"}},
	{"Open: of the first flight half comes in time, and what comes in time is all that its judgement sees: half of the rate. The look behind it is shorter than the packets are late, so it sees half of what it adds, and the next one is nine round trips later; with losses a start may end at a third. " +
		"An earlier next look makes 5 % lost 2.0 for 2.5, but 0 % 1.8 for 1.45. BBR is faster; New Reno and CUBIC take up to 28 with losses, though they detect them alike.",
		[]string{"every other packet late"}},
	{"New Reno in our place leaves CUBIC no more of it.", []string{"4 + 4 with cubic, queue 1 ", "1 + 1 with cubic, a policer", "1 + 1 with cubic, a queue of 4 packets"}},
	{"Open: the losses of CoDel depend on all who send, so that only half of them go when one yields. Where several of ours share the path, each takes what another leaves.",
		[]string{"neighbours without a queue: 1", "100 ms, CoDel"}},
	{"Open: until one that has most of the path has found by two Yields that its losses are not random, which takes ten seconds and more, the others have next to nothing. " +
		"Then all share, but at losses of 2 to 10 % New Reno and CUBIC wait for timeouts, and ours do not.",
		[]string{"neighbours without a queue: "}},
	{"A policer lets the train pass at 1 Gbit/s. The first flight of 512 KiB that this promises loses 406 packets of 3,700, which is 11 %: before a round trip is over nothing tells it from a path of 1 Gbit/s. One of a quarter of that makes 32 MiB over such a path take 1.6 of the ideal for 1.37. BBR loses more.",
		[]string{"policed"}},
	{"Open: the rate changes every five round trips. It keeps a queue of a few packets, which runs dry where the rate rises, and finds the rise with the next look, when the rate is about to fall. Others live off a queue of a product.",
		[]string{"a fifth of it every other 200 ms"}},
	{"Open: a sixteenth of the path is seven packets a round trip, and few packets tell little: some take losses of a full queue for random ones. New Reno loses as much, CUBIC less.",
		[]string{"crowd: 16 together, queue 0.125"}},
	{"A sixteenth of the path is seven packets a round trip. Who adds a packet a round trip and halves at a loss, as New Reno does, loses 1.5/7², which is 3 %; New Reno itself and CUBIC miss the bound as well.",
		[]string{"crowd: 16 together, queue 0.25", "crowd: 16 one by one, queue 0.25"}},
	{"A latecomer wins its share from a queue of four products, over which a round trip takes 250 ms; New Reno and CUBIC give it less.",
		[]string{"crowd: 4 one by one, queue 4"}},
	{"Open: unequal parts become equal over some ten seconds, by looks that all make as large as each other and by yielding to the queues of others. Seeds differ: some are at 0.99, some at 0.8. New Reno is fairer.",
		[]string{"crowd: 2", "crowd: 4", "crowd: 8", "crowd: 16", "crowd and weather: "}},
	{"Open: who has most looks for more by a quarter of that, three times what a queue of an eighth holds, which its looks no longer do once one has met drops: 0.91 for 0.71. Who yields adds half a packet in a round trip, of which its part is a hundred. " +
		"Not to look before half of the queue is empty makes it 0.95 and gives one CUBIC over an eighth 0.47 for 0.41, but 16 in weather lose 2.3 % for 1.5.",
		[]string{"8 together on 1000 Mbit/s", "2 together on 1000 Mbit/s"}},
	{"Who has the longer way looks for more less often, and learns of a queue later. New Reno leaves it 0.17, and BBR leaves the shorter one a twentieth.",
		[]string{"round trips: 20 ms beside 100 ms"}},
	{"Open: over a narrow path the drain behind a look lasts until the queue is gone, which costs 3 % of the rate.",
		[]string{"play in the connection of a transfer, 2 Mbit/s"}},
	{"Open: over a round trip of 10 ms CUBIC leaves us 0.55 to 0.57, New Reno 0.48.",
		[]string{"with cubic on 100 Mbit/s"}},
	{"Open: a start that fills a queue of a quarter once drops all that the long one of ours sends for 40 ms, which then competes from a sixtieth of its rate, and wins that back by looks, a quarter each. " +
		"From 0.9 of all that came before, over short queues, it would have more; but then 16 in weather lose 2.3 % for 1.5, and two over 1 Gbit/s and an eighth become less equal.",
		[]string{"short flows: "}},
	{"BBR of the first version takes no notice of PIE's losses; who answers them as New Reno does gets a seventh, New Reno and CUBIC as well.",
		[]string{"with bbr, PIE"}},
	{"Open: PIE drops at random from a queue of 15 ms. Four of ours lose 1 % there and have 0.56 of the path beside CUBIC; one or two, and four beside New Reno, leave the others theirs.",
		[]string{"with reno, PIE", "with cubic, PIE"}},
	{"A model that takes no notice of loss fills a queue of an eighth until 5 % and more are lost; who answers losses as New Reno does gets a thirtieth, New Reno itself as well.",
		[]string{"with bbr, queue 0.125"}},
	{"BBR of the first version keeps two products in flight and goes on whatever is lost, so that a queue of one is full beside it. With a twentieth of the path we lose 5 % of our packets there, and one that goes on at losses " +
		"of up to 12 % has no more. New Reno and CUBIC have less, beside Linux's BBR as well.",
		[]string{"with bbr, queue 1"}},
	{"Open: one of ours has 0.56 of a queue of an eighth beside New Reno since a start ends early there, 0.54 before.",
		[]string{"1 + 1 with reno, queue 0.125"}},
	{"On a queue of an eighth CUBIC has less than its half beside New Reno, too, which takes as much.",
		[]string{"with cubic, queue 0.125"}},
	{"Open: four that fill a queue of a product answer the same losses, and the two that add a packet in each round trip have a little more than the two that grow with time.",
		[]string{"2 + 2 with cubic, queue 1"}},
	{"On a queue of four products, over which a round trip takes 250 ms, CUBIC grows with time and not with round trips; it leaves New Reno and BBR less than the bound, too.",
		[]string{"with cubic, queue 4"}},
	{"Four and more fill the queue as New Reno does until they have emptied it together, which takes some ten seconds; then half of the packets wait less than 11 ms. New Reno, CUBIC and BBR fill it for ever.",
		[]string{"play beside"}},
	{"Open: a train that says less than the path carries is believed for three round trips, until a look tries more; to begin without would be faster.",
		[]string{"lied by 0."}},
	{"Open: the price of believing trains. The first flight of 256 KiB, two products, leaves at the rate that the train told, and what is beyond path and queue is lost, once. A train that is right spares round trips.",
		[]string{"256 KiB after a train that lied by"}},
	{"Open: nobody sees the others for a round trip. Trains that do not meet find the path idle, and each begins with a part of the product, up to 512 KiB: what is more than path and queue take in that time is lost, 8 MB of 16 hosts less 2. Half of that flight makes 9 % 4 and 18 % 10, " +
		"and costs 4 MiB over 100 Mbit/s 5 % more time. One so short that those of a few do not meet loses more, for then all go on at the whole rate: 8 lose 15 % after 64 KiB, 4 lose 6. New Reno and CUBIC, which double from QUIC's window, lose less; over 100 ms New Reno and BBR miss the bound with 16 and 32, too. " +
		"The first of eight finds the path empty for 6 ms, and has half of it for seconds. One server's senders know of each other.",
		[]string{"within 50 ms, many"}},
	{"Open: the first of a server's transfers leave their starts with a little more than the others, and parts become equal over some ten seconds, which is longer than these last. With 1 % lost New Reno and CUBIC take four times as long.",
		[]string{"within 50 ms, one server's"}},
	{"Open: the trains, a second before, find the path idle, and each transfer begins with a part of what they promised. New Reno loses as much where there are 8, and twice as much where there are 16; CUBIC loses less.",
		[]string{"within 100 ms"}},
}

// bound fills in the Binds of rows.
func bound(rows []Row) []Row {
	for i := range rows {
		rows[i].Binds = why(rows[i].Name())
	}
	return rows
}

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
