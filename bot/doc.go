// Package bot joins the conversations into one bot: it offers seats (claim),
// prepares calls (warmup) behind a breaker, lets the carrier's media in (media)
// and tells the fleet about itself (pool). cmd/bot runs one; a Go program that
// wants to be the bot itself calls [New] and [Bot.Run] with its own Talk.
//
// # Contract
//
//   - A seat is idle again, in every state, as soon as its call is over, released
//     or given up; what the call had open is closed.
//   - A bot that is told to stop takes no call more and loses none that it has:
//     it leaves when all its seats are idle, or after DrainIn + CloseIn.
//   - Ready means alive, connected and not deaf. It never means "can take a call":
//     a busy, draining or cordoned bot stays ready, because Kubernetes deletes a
//     pod that is not ready first.
//
// # Picture
//
//	claim ──Begin──▶ session ──Warm──▶ breaker.Try, warmup.Prepared, media token
//	                    │ Assigned: media must come within MediaIn
//	carrier ──media──▶  │ Connected: live ─── Talk ───▶ Ended: wrapup, idle
//	release, deadline ─▶│ finish: whatever comes first, once
//
// # Stopping
//
//	ctx ends (SIGTERM), or the command drain:
//	  1. no offers, beats say draining; calls go on, at most DrainIn (10 min)
//	  2. what is left is hung up, at most CloseIn (60 s)
//	  3. goodbye; Run returns nil, or [ErrDrained] when a command asked for it
//
// # If X dies
//
//   - NATS: calls go on; offers and beats come back with the connection. A bot
//     that is connected and yet deaf notices it by asking itself through the
//     server every 10 s, and reconnects.
//   - The carrier: its socket closes and the seat is idle.
//   - The asker: package claim frees the seat.
//   - The bot: the kernel closes its connections; NATS and the carrier know at once.
package bot
