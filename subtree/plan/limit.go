package plan

import "math/bits"

// Limits are tried on a grid of 16 steps an octave. Fewer tries, and volumes that change a little mostly end on the
// same step.
const (
	gridBits  = 4
	gridSteps = costBits << gridBits
)

// gridLimit is the cost at a step of the grid, ascending from 1 to 1<<costBits.
func gridLimit(step int) uint64 {
	mantissa := uint64(1<<gridBits + step&(1<<gridBits-1))
	if octave := step >> gridBits; octave >= gridBits {
		return mantissa << (octave - gridBits)
	} else {
		return mantissa >> (gridBits - octave)
	}
}

// gridStep is the least step whose limit is at least cost.
func gridStep(cost uint64) int {
	low := max(0, bits.Len64(cost)-1) << gridBits
	for gridLimit(low) < cost {
		low++
	}
	return low
}

// search finds the least limit on the grid, at most that of step high, whose count stays within budget. Counts fall with
// the limit only on the whole, so the answer is a limit that was tried, or high, whose count the caller knows to be fine.
func search(high, budget int, count func(limit uint64) int) uint64 {
	low := -1 // too many pieces there, or not tried
	for high-low > 1 {
		mid := low + (high-low)/2
		if count(gridLimit(mid)) <= budget {
			high = mid
		} else {
			low = mid
		}
	}
	return gridLimit(high)
}
