package api

import "errors"

// What the server is told by whoever keeps the calls. They stand here because the
// two sides do not know each other; every such error wraps one of them, or is
// answered as "internal".
var (
	// ErrDuplicate: a call of this id is known already. Nothing was changed.
	ErrDuplicate = errors.New("a call of this id is known already")
	// ErrUnavailable: whoever would have to answer is not there. Whether something was
	// done is not known; doing it again is safe.
	ErrUnavailable = errors.New("not available now")
	// ErrNotFound: no such call, or no such attempt of it.
	ErrNotFound = errors.New("not found")
	// ErrEnded: the call is over, so there is nothing left to change.
	ErrEnded = errors.New("the call has ended")
)
