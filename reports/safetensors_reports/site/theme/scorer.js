// Named objects come before pages that only contain the words; bugs and cases come last.
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 90, 1: 75, 2: 60}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2
};
