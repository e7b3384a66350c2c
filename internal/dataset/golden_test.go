package dataset

const goldenText = "nil size != log.time message  for key (c"
