package events

// Types of events. A type is any list of tokens joined by dots; these are the ones
// Dibs itself tells of. The subject is the call, unless said otherwise.
const (
	CallAccepted       = "call.accepted"         // it is in line
	CallVerdict        = "call.verdict"          // why it waits has changed
	CallAdmitted       = "call.admitted"         // it has a slot
	CallQueued         = "call.queued"           // back in line
	CallBotWaitStarted = "call.bot_wait_started" // no bot was found; 90 s from here
	CallClaimAttempted = "call.claim.attempted"  // one ask of one bot
	CallClaimed        = "call.claimed"          // a bot is ready
	CallDialing        = "call.dialing"          // the carrier is being asked
	CallRinging        = "call.ringing"
	CallAnswered       = "call.answered"
	CallMediaConnected = "call.media_connected"
	CallFirstAudio     = "call.first_audio" // the callee hears the bot
	CallEnded          = "call.ended"       // with its outcome
	CallFailed         = "call.failed"      // one attempt of it
	CallRejected       = "call.rejected"    // inbound, no room

	CallbackRequested = "callback.requested" // subject: the call that was turned away or broken

	// The subject is the bot.
	BotRegistered    = "bot.registered"
	BotStateChanged  = "bot.state_changed"
	BotWarmupFailed  = "bot.warmup_failed"
	BotBreakerOpened = "bot.breaker_opened"
	BotBreakerClosed = "bot.breaker_closed"
	BotCordoned      = "bot.cordoned"
	BotDraining      = "bot.draining"
	BotLost          = "bot.lost"
	BotReleased      = "bot.released"

	// The subject is the provider.
	ProviderFull         = "provider.full"
	ProviderLimitLearned = "provider.limit_learned"
	ProviderLeaseExpired = "provider.lease_expired"

	// The subject is the region.
	ScaleWantedChanged = "scale.wanted_changed"
	ScaleClamped       = "scale.clamped"
	ScaleLimited       = "scale.limited"

	OrgEnvelopeChanged = "org.envelope_changed" // subject: the org

	OperatorAction = "operator.action" // subject: what it was done to; for the audit
)
