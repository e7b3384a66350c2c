package pause

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestFor: it ends with the time or with the context, whichever comes first, and says which.
func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if !For(ctx, -time.Second) || time.Since(start) != 0 {
			t.Errorf("a negative time took %v", time.Since(start))
		}
		if !For(ctx, 59*time.Second) || time.Since(start) != 59*time.Second {
			t.Errorf("59s took %v", time.Since(start))
		}
		if For(ctx, time.Hour) || time.Since(start) != time.Minute {
			t.Errorf("the context ended after 1m, and it after %v", time.Since(start))
		}
	})
}

func TestAbout(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	low, high := time.Hour, time.Duration(0)
	for range 1000 {
		d := About(r, 10*time.Second)
		low, high = min(low, d), max(high, d)
	}
	if low < 5*time.Second || low > 6*time.Second || high > 15*time.Second || high < 14*time.Second || About(r, 0) != 0 {
		t.Errorf("from %v to %v", low, high)
	}
}
