// Package sim tries the whole system: real NATS, real bots with their media
// sockets, the real dispatcher and HTTP API, and the simulated carrier, in one
// process or in many. It holds nothing but tests; what they check after every run
// is the same: every call has ended, nobody was dialled twice, no seat, lock or
// message is left, and everybody heard their own greeting.
package sim
