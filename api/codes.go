package api

import "slices"

// Code is one kind of problem. Its word and its status do not change.
type Code struct {
	Code   string
	Status int
	Title  string
	Advice string // what to do about it
}

// The codes.
const (
	CodeMalformedJSON  = "malformed_json"
	CodeBodyMissing    = "body_missing"
	CodeBodyUnreadable = "body_unreadable"
	CodeBadKey         = "invalid_idempotency_key"
	CodeBadWebhook     = "malformed_webhook"

	CodeUnauthorized = "unauthorized"
	CodeForbidden    = "forbidden"
	CodeBadSignature = "bad_signature"

	CodeNotFound         = "not_found"
	CodeCallNotFound     = "call_not_found"
	CodeClaimNotFound    = "claim_not_found"
	CodeBotNotFound      = "bot_not_found"
	CodeNumberNotFound   = "number_not_found"
	CodeOrgNotFound      = "org_not_found"
	CodeCampaignNotFound = "campaign_not_found"
	CodeUnknownCarrier   = "unknown_carrier"
	CodeMethod           = "method_not_allowed"
	CodeBodyTimeout      = "body_timeout"
	CodeKeyInProgress    = "idempotency_in_progress"
	CodeCallEnded        = "call_ended"
	CodeBotLost          = "bot_lost"
	CodeBotRefused       = "bot_refused"
	CodeBodyTooLarge     = "body_too_large"
	CodeMediaType        = "unsupported_media_type"

	CodeInvalidField       = "invalid_field"
	CodeUnknownField       = "unknown_field"
	CodeInvalidNumber      = "invalid_number"
	CodeInvalidClass       = "invalid_class"
	CodeInvalidFlow        = "invalid_flow"
	CodeInvalidHours       = "invalid_hours"
	CodeInvalidWindow      = "invalid_window"
	CodeInvalidRetry       = "invalid_retry"
	CodeInvalidMetadata    = "invalid_metadata"
	CodeInvalidCallbackURL = "invalid_callback_url"
	CodeKeyReused          = "idempotency_key_reused"
	CodeCallRejected       = "call_rejected"
	CodeOrgDeadlock        = "org_deadlock"

	CodeInternal        = "internal"
	CodeUnavailable     = "unavailable"
	CodeLineUnavailable = "queue_unavailable"
	CodeNobodyInOffice  = "dispatcher_unavailable"
	CodeDemandUnknown   = "demand_unknown"
	CodeBotSilent       = "bot_silent"
	CodeNoBotRegistered = "no_bot_registered"
	CodeNoIdleBot       = "no_idle_bot"
	CodeBotsBusy        = "bots_busy"
	CodeBotsDraining    = "bots_draining"
	CodeBreakerOpen     = "breaker_open"
	CodeClaimTimeout    = "claim_timeout"
	CodeWarmupFailed    = "warmup_failed"
)

// Codes are all codes, by status.
func Codes() []Code {
	return []Code{
		{CodeMalformedJSON, 400, "Not JSON", "Send one JSON object in UTF-8."},
		{CodeBodyMissing, 400, "No body", "Send a JSON object."},
		{CodeBodyUnreadable, 400, "Body cut short", "Send it again; the connection broke, or the length was wrong."},
		{CodeBadKey, 400, "Bad idempotency key", "Use 1 to 255 printable ASCII characters."},
		{CodeBadWebhook, 400, "Bad webhook", "For the carrier's support: the webhook lacks what its documentation promises."},

		{CodeUnauthorized, 401, "No valid token", "Send Authorization: Bearer and a token of this server."},
		{CodeForbidden, 403, "Not allowed", "The token's role or organisation does not reach so far; use another."},
		{CodeBadSignature, 403, "Bad signature", "Check the auth token and the public URL in the carrier's configuration."},

		{CodeNotFound, 404, "Nothing here", "Look the path up in /openapi.json."},
		{CodeCallNotFound, 404, "No such call", "Check the id. Old calls are forgotten after a while."},
		{CodeClaimNotFound, 404, "No such claim", "No bot has the call: nothing is left to release."},
		{CodeBotNotFound, 404, "No such bot", "Look at /v1/bots. A bot that comes back has another id."},
		{CodeNumberNotFound, 404, "Not one of our numbers", "PUT its settings first; write it as E.164."},
		{CodeOrgNotFound, 404, "No such org", "It has no envelope: its calls go when there is room. PUT one to give it limits."},
		{CodeCampaignNotFound, 404, "No such campaign", "It has no cap of its own. PUT one to give it a limit."},
		{CodeUnknownCarrier, 404, "No such carrier", "The server is not configured for the carrier in the path."},
		{CodeMethod, 405, "Wrong method", "The header Allow names the right ones."},
		{CodeBodyTimeout, 408, "Body too slow", "Send it again, faster."},
		{CodeKeyInProgress, 409, "Still in progress", "A request with this key is being worked on; repeat it after Retry-After."},
		{CodeCallEnded, 409, "The call has ended", "Nothing is left to cancel."},
		{CodeBotLost, 409, "The bot is gone", "It was listed and does not answer any more; it is forgotten soon."},
		{CodeBotRefused, 409, "The bot refused", "The detail has the bot's own words."},
		{CodeBodyTooLarge, 413, "Body too large", "Send at most 128 KiB; put long flows behind a URL."},
		{CodeMediaType, 415, "Not application/json", "Send Content-Type: application/json."},

		{CodeInvalidField, 422, "Invalid field", "See errors."},
		{CodeUnknownField, 422, "Unknown field", "See errors, and compare the names with /openapi.json."},
		{CodeInvalidNumber, 422, "Not a telephone number", "Write numbers as E.164: + and 7 to 15 digits."},
		{CodeInvalidClass, 422, "Invalid class", "Use api, retry, workflow or campaign."},
		{CodeInvalidFlow, 422, "Invalid flow", "See errors."},
		{CodeInvalidHours, 422, "Invalid hours", "See errors; a number with several time zones needs tz."},
		{CodeInvalidWindow, 422, "Invalid window", "not_after must come after not_before, and after now."},
		{CodeInvalidRetry, 422, "Invalid retry policy", "See errors."},
		{CodeInvalidMetadata, 422, "Invalid metadata", "Send an object of at most 8192 bytes."},
		{CodeInvalidCallbackURL, 422, "Invalid callback URL", "Use an absolute http or https URL."},
		{CodeKeyReused, 422, "Idempotency key reused", "The key belongs to another request; make a new key for a new request."},
		{CodeCallRejected, 422, "No bot would take the call", "The call itself is wrong, reason says how; asking again does not help."},
		{CodeOrgDeadlock, 422, "Nobody could dial", "What is kept for inbound would leave no line for outbound; the errors have the numbers."},

		{CodeInternal, 500, "Our fault", "Report it with the request id."},
		{CodeUnavailable, 503, "Not available now", "Try again after Retry-After."},
		{CodeLineUnavailable, 503, "The line is not available", "It is not known whether the call was stored: send it again with the same idempotency key."},
		{CodeNobodyInOffice, 503, "No dispatcher", "One takes office within seconds; try again after Retry-After."},
		{CodeDemandUnknown, 503, "Demand not known", "Leave the number of bots as it is; the dispatcher tells it again within seconds."},
		{CodeBotSilent, 503, "The bot does not answer", "It may be frozen; look at it, or try again."},
		{CodeNoBotRegistered, 503, "No bot at all", "Start bots in the region, or check their NATS connection."},
		{CodeNoIdleBot, 503, "No idle bot", "Add bots, or try again when a call has ended."},
		{CodeBotsBusy, 503, "All bots busy", "Their seats were taken meanwhile; try again."},
		{CodeBotsDraining, 503, "All bots drain", "They finish and leave; wait for the new ones."},
		{CodeBreakerOpen, 503, "Bots fail to prepare", "Look at the breaker in /v1/bots: its last error says why."},
		{CodeClaimTimeout, 503, "Bots were silent", "They were asked and did not answer in time; try again, and look at them."},
		{CodeWarmupFailed, 503, "Warm-up failed", "The attempts say what could not be prepared."},
	}
}

// CodeOf is the code of a word; an unknown word is "internal".
func CodeOf(word string) Code {
	all := Codes()
	is := func(c Code) bool { return c.Code == word }
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i]
	}
	return all[slices.IndexFunc(all, func(c Code) bool { return c.Code == CodeInternal })]
}
