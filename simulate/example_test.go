package simulate_test

import (
	"fmt"

	"dibs/simulate"
)

// The day that the default policy is there for.
func Example() {
	data, err := simulate.Shipped("2026-08-25")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := simulate.Parse(data)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := simulate.Run(s)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range report.Results {
		fmt.Printf("%-8s demand %3d, %2d bots, %d used, %d calls done\n", r.Policy, r.PeakDemand, r.PeakBots, r.Used, r.Done)
	}
	// Output:
	// headroom demand   5,  8 bots, 5 used, 109 calls done
	// active+4 demand  14, 20 bots, 5 used, 109 calls done
	// raw      demand 109, 50 bots, 5 used, 109 calls done
}
