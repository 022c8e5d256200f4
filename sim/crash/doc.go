// Package crash kills the real backend with SIGKILL at every named step of a
// dispatch, and backends, bots and the broker at random, and looks at what is left:
// every call has ended, nobody was dialled twice, no seat, record or message
// remains. It holds nothing but tests.
//
// The acceptance data is testdata/call-crash.json; DIBS_VECTORS names another
// folder. Deadlines of an hour are watched by letting the dispatcher's time pass
// faster (DIBS_HURRY); bots, carrier and office keep real time.
//
// DIBS_CHAOS=long makes the random part a thousand calls long; otherwise it is short
// enough for every run.
package crash
