package audio_test

import (
	"fmt"

	"dibs/internal/audio"
)

func ExampleTag() {
	tag, err := audio.Tag("4711")
	if err != nil {
		fmt.Println(err)
		return
	}
	var d audio.Detector
	for _, frame := range audio.Frames(audio.EncodeMuLaw(tag)) { // as a phone line carries it
		d.Write(audio.DecodeMuLaw(frame))
	}
	fmt.Println(d.Digits())
	// Output: 4711
}
