package api

import "dibs/call"

// Limits of a list.
const (
	DefaultLimit = 50
	MaxLimit     = 500
)

// ListQuery chooses calls. Empty fields choose everything.
type ListQuery struct {
	State    call.State
	Org      string
	Campaign string
	Limit    int    // 1 to MaxLimit; 0: DefaultLimit
	Cursor   string // the Next of the page before; "": the first page
}
