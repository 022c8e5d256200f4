// Package natsd runs a nats-server with JetStream inside this process: the broker
// of "dibs demo", of small installations and of tests that need a process of
// their own. A larger installation runs nats-server itself; nothing else in Dibs
// knows the difference.
//
// # Contract
//
//   - [Server.Run] returns an error that says what to do when the port is taken,
//     the store directory cannot be written or another process has it, and when
//     the server is not ready in time. It never ends the process, as the server's
//     own main function would.
//   - It listens on loopback unless told otherwise, and then only with a password.
//   - When its context ends, clients are told, what was acknowledged is written
//     out, and Run returns once every goroutine of the server has ended; after
//     10 s it returns all the same and logs that something is left behind.
//   - A store directory belongs to one process: two servers on one directory
//     would destroy it, and the server itself does not notice.
//
// # Picture
//
//	New ──▶ Run(ctx): lock the directory ─▶ start ─▶ Ready() closed ─▶ ctx ends ─▶ shut down ─▶ unlock
//	                      │ in use            │ port taken, broken store,
//	                      ▼                   ▼ not ready in time
//	                    error               error
//
// # What happens when
//
//   - this process is killed: what was acknowledged is in the operating system's
//     hands and is there at the next start; the lock goes with the process.
//   - the machine loses power: up to two minutes of acknowledged messages may be
//     missing at the next start, as with every nats-server that keeps one copy and
//     the default sync interval. Three nodes are the cure ([Cluster]).
//   - a client's machine vanishes: it is found out within 15 s, by pings every 5 s.
package natsd
