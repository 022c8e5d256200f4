package api

import "net/url"

// StatusPath is the path below which a carrier's status webhooks arrive, with a
// slash at its end; the attempt id follows as the last element.
func StatusPath(carrier string) string { return "/v1/carriers/" + url.PathEscape(carrier) + "/status/" }
