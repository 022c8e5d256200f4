package api

import "net/url"

// StatusPath is the path below which a carrier's status webhooks arrive, with a
// slash at its end; the attempt id follows as the last element.
func StatusPath(carrier string) string { return "/v1/carriers/" + url.PathEscape(carrier) + "/status/" }

// NextPath is the path below which a carrier asks how to go on with a call whose
// media socket has closed, with a slash at its end; the attempt id follows.
func NextPath(carrier string) string { return "/v1/carriers/" + url.PathEscape(carrier) + "/next/" }

// InboundPath is where a carrier asks what to do with a call that comes in; below it,
// at status, it tells how that ended.
func InboundPath(carrier string) string { return "/v1/inbound/" + url.PathEscape(carrier) }
