package call

import "strings"

// E164 reports whether s is a telephone number as carriers take it: "+", then 7
// to 15 digits of which the first is not 0. Nothing is mended: spaces, dashes
// and "00" are for whoever reads people's handwriting.
func E164(s string) bool {
	digits, plus := strings.CutPrefix(s, "+")
	if !plus || len(digits) < 7 || len(digits) > 15 || digits[0] == '0' {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return true
}

// MaskNumber makes a number fit for logs: "+49151•••89". At least four digits
// are hidden, and how many is not told. What is no number is hidden whole.
func MaskNumber(s string) string {
	const dots = "•••"
	if s == "" {
		return ""
	}
	if !E164(s) {
		return dots
	}
	head := 1 + min(5, len(s)-1-2-4)
	return s[:head] + dots + s[len(s)-2:]
}

// ZoneOf is the time zone of a number whose country has only one; ok is false
// for every other country (+1, +7, +34, +61 …), where the contact must say it.
func ZoneOf(number string) (tz string, ok bool) {
	if !E164(number) {
		return "", false
	}
	for n := 3; n >= 2; n-- { // country codes are prefix-free; none of ours has one digit
		if tz := zoneOfCountry(number[1 : 1+n]); tz != "" {
			return tz, true
		}
	}
	return "", false
}

// zoneOfCountry knows the countries where every telephone shows the same time.
// Countries whose islands keep another clock under the same code are left out on
// purpose: an hour too early is a broken law.
func zoneOfCountry(code string) string {
	switch code {
	case "20":
		return "Africa/Cairo"
	case "27":
		return "Africa/Johannesburg"
	case "30":
		return "Europe/Athens"
	case "31":
		return "Europe/Amsterdam"
	case "32":
		return "Europe/Brussels"
	case "33":
		return "Europe/Paris"
	case "36":
		return "Europe/Budapest"
	case "39":
		return "Europe/Rome"
	case "40":
		return "Europe/Bucharest"
	case "41":
		return "Europe/Zurich"
	case "43":
		return "Europe/Vienna"
	case "44":
		return "Europe/London"
	case "45":
		return "Europe/Copenhagen"
	case "46":
		return "Europe/Stockholm"
	case "47":
		return "Europe/Oslo"
	case "48":
		return "Europe/Warsaw"
	case "49":
		return "Europe/Berlin"
	case "63":
		return "Asia/Manila"
	case "65":
		return "Asia/Singapore"
	case "66":
		return "Asia/Bangkok"
	case "81":
		return "Asia/Tokyo"
	case "82":
		return "Asia/Seoul"
	case "90":
		return "Europe/Istanbul"
	case "91":
		return "Asia/Kolkata"
	case "353":
		return "Europe/Dublin"
	case "352":
		return "Europe/Luxembourg"
	case "358":
		return "Europe/Helsinki"
	case "359":
		return "Europe/Sofia"
	case "370":
		return "Europe/Vilnius"
	case "371":
		return "Europe/Riga"
	case "372":
		return "Europe/Tallinn"
	case "381":
		return "Europe/Belgrade"
	case "385":
		return "Europe/Zagreb"
	case "386":
		return "Europe/Ljubljana"
	case "420":
		return "Europe/Prague"
	case "421":
		return "Europe/Bratislava"
	case "852":
		return "Asia/Hong_Kong"
	case "886":
		return "Asia/Taipei"
	case "966":
		return "Asia/Riyadh"
	case "971":
		return "Asia/Dubai"
	case "972":
		return "Asia/Jerusalem"
	}
	return ""
}
