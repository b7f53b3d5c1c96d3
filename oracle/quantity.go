package main

import (
	"encoding/json"
	"math/big"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

func answerQuantity(input json.RawMessage) (any, error) {
	var text string
	if err := json.Unmarshal(input, &text); err != nil {
		return nil, err
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return map[string]any{"error": err.Error()}, nil
	}
	number, suffix := quantity.CanonicalizeBytes(nil)
	expected := map[string]any{
		"canonical":  string(number) + string(suffix),
		"format":     quantity.Format,
		"isZero":     quantity.IsZero(),
		"milliValue": quantity.MilliValue(),
		"sign":       quantity.Sign(),
		"string":     quantity.String(),
		"value":      quantity.Value(),
	}
	if isQuirk(quantity) {
		expected["quirk"] = true
	}
	return expected, nil
}

// isQuirk tells whether one of the two integers is not the exact number rounded away from zero.
func isQuirk(quantity resource.Quantity) bool {
	copied := quantity.DeepCopy()
	exact := copied.AsDec()
	milli := new(inf.Dec).Mul(exact, inf.NewDec(1000, 0))
	return awayFromZero(exact).Cmp(big.NewInt(quantity.Value())) != 0 ||
		awayFromZero(milli).Cmp(big.NewInt(quantity.MilliValue())) != 0
}

func awayFromZero(number *inf.Dec) *big.Int {
	return new(inf.Dec).Round(number, 0, inf.RoundUp).UnscaledBig()
}
