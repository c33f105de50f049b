// The marks of reports, for [mark, slot] pairs on the command line.
import { markOf } from "./pages/rules.js";

const pairs = JSON.parse(process.argv[2]);
const survey = { marks: "slots" };
console.log(JSON.stringify(pairs.map(([mark, slot]) => markOf(survey, { mark }, slot))));
