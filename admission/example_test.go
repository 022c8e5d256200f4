package admission_test

import (
	"fmt"

	"dibs/admission"
	"dibs/call"
)

// Two customers on three lines: the one that runs fewer goes first, and whoever
// does not go is told why.
func Example() {
	s := admission.New(admission.Platform{Cap: 3}, nil)
	s.SetOrg(admission.Org{ID: "acme", Ceiling: new(2)})
	s.SetOrg(admission.Org{ID: "zeta", Floor: 1})
	for _, c := range []admission.Call{
		{ID: "a1", Org: "acme", Class: call.ClassCampaign},
		{ID: "a2", Org: "acme", Class: call.ClassAPI},
		{ID: "a3", Org: "acme", Class: call.ClassCampaign},
		{ID: "z1", Org: "zeta", Class: call.ClassCampaign},
	} {
		if err := s.Enqueue(c); err != nil {
			fmt.Println(err)
		}
	}
	for _, d := range s.Tick(0) {
		fmt.Println(d.Call, "goes by", d.Basis)
	}
	for d := range s.Verdicts() {
		fmt.Println(d.Call, "waits:", d.Reason, "of", d.Scope, "and", len(d.BlockedBy)-1, "more")
	}
	// Output:
	// z1 goes by floor
	// a2 goes by burst
	// a1 goes by burst
	// a3 waits: org_ceiling of org:acme and 1 more
}

func ExampleValidate() {
	fmt.Println(admission.Validate(admission.Platform{Cap: 30}, []admission.Org{
		{ID: "acme", Floor: 1, Ceiling: new(1), Reserve: 1},
	}, nil))
	// Output: admission: org:acme: reserve: reserve 1 leaves 0 lines for outbound at ceiling 1
}
