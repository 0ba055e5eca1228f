// Empty: with an assembly file in the package, Go takes a function that is declared without a body.
