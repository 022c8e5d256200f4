package demand_test

import (
	"fmt"
	"time"

	"dibs/demand"
)

// A campaign of 109 that may run 5, by each policy.
func ExampleCompute() {
	in := demand.Input{InFlight: new(5), Direct: new(0), Ready: new(0), Queued: new(104)}
	for _, policy := range demand.Policies() {
		w, err := demand.Compute(demand.Config{Policy: policy}, in)
		fmt.Println(policy, w.Bots, err)
	}
	_, err := demand.Compute(demand.Config{}, demand.Input{})
	fmt.Println(err)
	// Output:
	// headroom 8 <nil>
	// active+4 20 <nil>
	// raw 50 <nil>
	// demand: in_flight: unknown
	// demand: direct: unknown
}

// What the autoscaler makes of a sudden demand of 109.
func ExampleHPA() {
	h, err := demand.NewHPA(demand.HPAConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	now, pods := time.Unix(0, 0), 3
	for pods < 50 {
		pods = h.Sync(now, pods, new(109))
		fmt.Print(pods, " ")
		now = now.Add(15 * time.Second)
	}
	// Output: 13 26 50
}
