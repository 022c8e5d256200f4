package admission

import (
	"maps"
	"slices"

	"dibs/call"
)

// Report is the numbers of the moment, all of them counted from the set.
type Report struct {
	Platform  PlatformReport   `json:"platform"`
	Orgs      []OrgReport      `json:"orgs"`      // by id
	Campaigns []CampaignReport `json:"campaigns"` // by id
	Regions   []RegionReport   `json:"regions"`   // by name
	Warnings  []Warning        `json:"warnings,omitempty"`
}

// PlatformReport is the whole environment.
type PlatformReport struct {
	InFlight int `json:"in_flight"`
	Waiting  int `json:"waiting"`
	Cap      int `json:"cap"`
	Owed     int `json:"owed"`      // kept for inbound
	FreePool int `json:"free_pool"` // cap less all floors: for planning, never a gate
}

// OrgReport is one envelope.
type OrgReport struct {
	Org
	InFlight         int                `json:"in_flight"`
	ByClass          map[call.Class]int `json:"by_class,omitempty"`
	Waiting          int                `json:"waiting"`
	EffectiveReserve int                `json:"effective_reserve"`
	Owed             int                `json:"owed"`
	Shortfall        int                `json:"shortfall"`
}

// CampaignReport is one campaign.
type CampaignReport struct {
	Campaign
	InFlight int `json:"in_flight"`
	Waiting  int `json:"waiting"`
}

// RegionReport is what bears the label of one region.
type RegionReport struct {
	Region   string             `json:"region"`
	InFlight map[call.Class]int `json:"in_flight,omitempty"`
	Waiting  map[call.Class]int `json:"waiting,omitempty"`
}

// Report counts everything.
func (s *State) Report() Report {
	r := Report{Platform: PlatformReport{InFlight: len(s.live), Waiting: len(s.waiting), Cap: s.platform.Cap, Owed: s.owed()}}
	regions := map[string]*RegionReport{}
	region := func(name string) *RegionReport {
		if regions[name] == nil {
			regions[name] = &RegionReport{Region: name, InFlight: map[call.Class]int{}, Waiting: map[call.Class]int{}}
		}
		return regions[name]
	}
	queued := map[*crowd]int{}
	free := s.platform.Cap
	var orgs []Org
	for _, o := range s.sorted() {
		orgs = append(orgs, o.Org)
		free -= max(0, o.Floor)
		or := OrgReport{
			Org: o.Org, InFlight: o.inFlight(), ByClass: map[call.Class]int{},
			EffectiveReserve: o.EffectiveReserve(), Owed: o.owed(), Shortfall: o.shortfall(),
		}
		for c, set := range o.live {
			if len(set) > 0 {
				or.ByClass[classes[c]] = len(set)
			}
		}
		for _, q := range o.index {
			or.Waiting += len(q.items)
			queued[q.crowd] += len(q.items)
			region(q.region).Waiting[classes[q.rank]] += len(q.items)
		}
		r.Orgs = append(r.Orgs, or)
	}
	r.Platform.FreePool = max(0, free)
	for _, l := range s.live {
		region(l.Region).InFlight[l.Class]++
	}
	for _, id := range slices.Sorted(maps.Keys(s.campaigns)) {
		c := s.campaigns[id]
		r.Campaigns = append(r.Campaigns, CampaignReport{Campaign: c.Campaign, InFlight: len(c.live), Waiting: queued[c]})
	}
	for _, name := range slices.Sorted(maps.Keys(regions)) {
		r.Regions = append(r.Regions, *regions[name])
	}
	r.Warnings = Lint(s.platform, orgs)
	return r
}
