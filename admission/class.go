package admission

import "dibs/call"

// rank is the place of a class in the order of what a refusal costs.
type rank int

const (
	inbound rank = iota
	api
	retry
	workflow
	campaign
	ranks // how many there are
)

var classes = [ranks]call.Class{call.ClassInbound, call.ClassAPI, call.ClassRetry, call.ClassWorkflow, call.ClassCampaign}

// rankOf is the place of c; false for a class that does not exist.
func rankOf(c call.Class) (rank, bool) {
	for r, k := range classes {
		if k == c {
			return rank(r), true
		}
	}
	return 0, false
}
