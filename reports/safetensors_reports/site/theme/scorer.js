// What has an address of its own comes before pages that merely hold the words; bugs and cases come behind the rest.
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 90, 1: 75, 2: 60}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2
};
